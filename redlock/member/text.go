package member

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/quorum"
)

// The text of a record, as it stands on every master: printed, and read with all its bounds checked.

// Seal fills text and digest, and returns r.
func (r *Record) Seal() *Record {
	r.Text = r.print()
	r.Digest = recordDigest(r.Text)
	return r
}

// recordDigest is the beginning of the text's SHA-256, in hex.
func recordDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:DigestLen/2])
}

// print writes the record as ParseRecord reads it:
//
//	2;<generation>-<lineage>;<version>;<parent or ->;<max_ttl ms>;<wait ms>;<ttl since>;<roster>;<seat>|<seat>…
//	3;<generation>-<lineage>;<version>;<parent or ->;<ceiling ms>;<wait ms>;<ttl since>;<roster>;<max_ttl ms>;<seat>|<seat>…
//
// where a seat is <number>,<name>,<addr>,<memory or ->,<state>,<since>.
func (r *Record) print() string {
	b := make([]byte, 0, 256+128*len(r.Seats))
	form := recordForm
	if r.MaxTTL != r.Ceiling {
		form = recordFormCeiling
	}
	b = fmt.Appendf(b, "%s;%d-%s;%d;%s;%d;%d;%d;%d;", form, r.Generation, r.Lineage, r.Version, orDash(r.Parent),
		r.Ceiling.Milliseconds(), r.Wait.Milliseconds(), r.TTLSince, r.Roster)
	if r.MaxTTL != r.Ceiling {
		b = fmt.Appendf(b, "%d;", r.MaxTTL.Milliseconds())
	}
	for i := range r.Seats {
		s := &r.Seats[i]
		if i > 0 {
			b = append(b, '|')
		}
		b = fmt.Appendf(b, "%d,%s,%s,%s,%s,%d", s.Number, escaped(s.Name), escaped(s.Addr), orDash(s.Memory), seatLetters[s.State], s.Since)
	}
	return string(b)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func fromDash(text string) string {
	if text == "-" {
		return ""
	}
	return text
}

// escaped percent-encodes every byte that is not a letter, a digit or one of -._:/ in any place. Its
// form is part of the digest: it must not change.
func escaped(text string) string {
	var b []byte
	for i := range len(text) {
		if c := text[i]; isWordByte(c) || c == ':' || c == '/' {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return string(b)
}

func unescaped(text string) (string, bool) {
	var b []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			if i+2 >= len(text) {
				return "", false
			}
			n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			c, i = byte(n), i+2
		}
		b = append(b, c)
	}
	return string(b), true
}

func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_'
}

// IsHex tells whether a text is n lower-case hex digits.
func IsHex(text string, n int) bool {
	if len(text) != n {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// parseCount reads an integer as strconv writes it, from 0 to countMax.
func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && n <= countMax && strconv.FormatInt(n, 10) == text
}

// parseLineage reads "<generation>-<lineage>".
func parseLineage(text string) (generation int64, lineage string, ok bool) {
	count, lineage, _ := strings.Cut(text, "-")
	generation, ok = parseCount(count)
	return generation, lineage, ok && IsHex(lineage, NonceLen)
}

// whatToDoAboutARecord ends the errors of ParseRecord: a master has shown a text that no redlockd
// wrote.
const whatToDoAboutARecord = "see who else writes to this master's " + lua.MembersKey + ", or whether a newer redlockd does"

// ParseRecord reads the text of a record. It accepts only what print writes, within its bounds.
func ParseRecord(text string) (*Record, error) {
	r, err := readRecord(text)
	if err == nil {
		err = r.Check()
	}
	if err == nil && r.print() != text {
		err = fmt.Errorf("it is not written as redlockd writes it")
	}
	if err != nil {
		return nil, fmt.Errorf("membership record: %w: %s", err, whatToDoAboutARecord)
	}
	r.Text, r.Digest = text, recordDigest(text)
	return r, nil
}

// readRecord splits the text into its fields; check judges them.
func readRecord(text string) (*Record, error) {
	if len(text) > RecordMax {
		return nil, fmt.Errorf("it has %d bytes, at most %d are possible", len(text), RecordMax)
	}
	fields := strings.SplitN(text, ";", 11)
	needed := 9
	switch fields[0] {
	case recordForm:
	case recordFormCeiling:
		needed = 10
	default:
		return nil, fmt.Errorf("it has the form %q, this redlockd reads the forms %s and %s", conn.Sanitize(fields[0]), recordForm, recordFormCeiling)
	}
	if len(fields) != needed {
		return nil, fmt.Errorf("it has %d fields, not %d", len(fields), needed)
	}
	maxTTL := fields[4] // in the form without one of its own it is the ceiling
	if fields[0] == recordFormCeiling {
		maxTTL = fields[8]
	}
	r := &Record{Parent: fromDash(fields[3])}
	var ok bool
	if r.Generation, r.Lineage, ok = parseLineage(fields[1]); !ok {
		return nil, fmt.Errorf("%q is no lineage", conn.Sanitize(fields[1]))
	}
	var ms [3]int64
	for _, f := range []struct {
		what, text string
		to         *int64
	}{
		{"version", fields[2], &r.Version},
		{"ceiling", fields[4], &ms[0]}, {"wait", fields[5], &ms[1]}, {"max_ttl", maxTTL, &ms[2]},
		{"version of max_ttl", fields[6], &r.TTLSince}, {"roster", fields[7], &r.Roster},
	} {
		if *f.to, ok = parseCount(f.text); !ok {
			return nil, fmt.Errorf("its %s %q is no number from 0 to %d", f.what, conn.Sanitize(f.text), int64(countMax))
		}
	}
	for i, to := range []*time.Duration{&r.Ceiling, &r.Wait, &r.MaxTTL} {
		*to = time.Duration(min(ms[i], recordWaitMax.Milliseconds()+1)) * time.Millisecond
	}
	seats := strings.SplitN(fields[needed-1], "|", quorum.MaxMasters+1)
	for i, text := range seats {
		if i == quorum.MaxMasters {
			return nil, fmt.Errorf("it has more than %d seats", quorum.MaxMasters)
		}
		s, err := readSeat(text)
		if err != nil {
			return nil, err
		}
		r.Seats = append(r.Seats, s)
	}
	return r, nil
}

func readSeat(text string) (Seat, error) {
	fields := strings.SplitN(text, ",", 7)
	if len(fields) != 6 {
		return Seat{}, fmt.Errorf("%q is no seat: it has %d fields, not 6", conn.Sanitize(text), len(fields))
	}
	number, okNumber := parseCount(fields[0])
	name, okName := unescaped(fields[1])
	addr, okAddr := unescaped(fields[2])
	since, okSince := parseCount(fields[5])
	s := Seat{Number: int(min(number, quorum.MaxMasters)), Name: name, Addr: addr, Memory: fromDash(fields[3]), Since: since}
	for state, letter := range seatLetters {
		if letter == fields[4] {
			s.State = state
		}
	}
	if !okNumber || !okName || !okAddr || !okSince || s.State == "" {
		return s, fmt.Errorf("%q is no seat", conn.Sanitize(text))
	}
	return s, nil
}
