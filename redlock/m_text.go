package redlock

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

// seal fills text and digest, and returns r.
func (r *record) seal() *record {
	r.text = r.print()
	r.digest = recordDigest(r.text)
	return r
}

// recordDigest is the beginning of the text's SHA-256, in hex.
func recordDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:digestLen/2])
}

// print writes the record as parseRecord reads it:
//
//	1;<generation>-<lineage>;<version>;<parent or ->;<max_ttl ms>;<wait ms>;<ttl since>;<roster>;<seat>|<seat>…
//
// where a seat is <number>,<name>,<addr>,<memory or ->,<state>,<since>.
func (r *record) print() string {
	b := make([]byte, 0, 256+128*len(r.seats))
	b = fmt.Appendf(b, "%s;%d-%s;%d;%s;%d;%d;%d;%d;", recordForm, r.generation, r.lineage, r.version, orDash(r.parent),
		r.maxTTL.Milliseconds(), r.wait.Milliseconds(), r.ttlSince, r.roster)
	for i := range r.seats {
		s := &r.seats[i]
		if i > 0 {
			b = append(b, '|')
		}
		b = fmt.Appendf(b, "%d,%s,%s,%s,%c,%d", s.number, escaped(s.name), escaped(s.addr), orDash(s.memory), s.state, s.since)
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

// escaped percent-encodes every byte that is not a letter, a digit or one of -._:/ in any place. Its form is part of the digest: it must not change.
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

// isHex tells whether a text is n lower-case hex digits.
func isHex(text string, n int) bool {
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
	return generation, lineage, ok && isHex(lineage, nonceLen)
}

// whatToDoAboutARecord ends the errors of parseRecord: a master has shown a text that no redlockd wrote.
const whatToDoAboutARecord = "see who else writes to this master's " + lua.MembersKey + ", or whether a newer redlockd does"

// parseRecord reads the text of a record. It accepts only what print writes, within its bounds.
func parseRecord(text string) (*record, error) {
	r, err := readRecord(text)
	if err == nil {
		err = r.check()
	}
	if err == nil && r.print() != text {
		err = fmt.Errorf("it is not written as redlockd writes it")
	}
	if err != nil {
		return nil, fmt.Errorf("membership record: %w: %s", err, whatToDoAboutARecord)
	}
	r.text, r.digest = text, recordDigest(text)
	return r, nil
}

// readRecord splits the text into its fields; check judges them.
func readRecord(text string) (*record, error) {
	if len(text) > recordMax {
		return nil, fmt.Errorf("it has %d bytes, at most %d are possible", len(text), recordMax)
	}
	fields := strings.SplitN(text, ";", 10)
	if fields[0] != recordForm {
		return nil, fmt.Errorf("it has the form %q, this redlockd reads form %s", conn.Sanitize(fields[0]), recordForm)
	}
	if len(fields) != 9 {
		return nil, fmt.Errorf("it has %d fields, not 9", len(fields))
	}
	r := &record{parent: fromDash(fields[3])}
	var ok bool
	if r.generation, r.lineage, ok = parseLineage(fields[1]); !ok {
		return nil, fmt.Errorf("%q is no lineage", conn.Sanitize(fields[1]))
	}
	var ms [2]int64
	for _, f := range []struct {
		what, text string
		to         *int64
	}{
		{"version", fields[2], &r.version},
		{"max_ttl", fields[4], &ms[0]}, {"wait", fields[5], &ms[1]},
		{"version of max_ttl", fields[6], &r.ttlSince}, {"roster", fields[7], &r.roster},
	} {
		if *f.to, ok = parseCount(f.text); !ok {
			return nil, fmt.Errorf("its %s %q is no number from 0 to %d", f.what, conn.Sanitize(f.text), int64(countMax))
		}
	}
	for i, to := range []*time.Duration{&r.maxTTL, &r.wait} {
		*to = time.Duration(min(ms[i], recordWaitMax.Milliseconds()+1)) * time.Millisecond
	}
	seats := strings.SplitN(fields[8], "|", quorum.MaxMasters+1)
	for i, text := range seats {
		if i == quorum.MaxMasters {
			return nil, fmt.Errorf("it has more than %d seats", quorum.MaxMasters)
		}
		s, err := readSeat(text)
		if err != nil {
			return nil, err
		}
		r.seats = append(r.seats, s)
	}
	return r, nil
}

func readSeat(text string) (seat, error) {
	fields := strings.SplitN(text, ",", 7)
	if len(fields) != 6 {
		return seat{}, fmt.Errorf("%q is no seat: it has %d fields, not 6", conn.Sanitize(text), len(fields))
	}
	number, okNumber := parseCount(fields[0])
	name, okName := unescaped(fields[1])
	addr, okAddr := unescaped(fields[2])
	since, okSince := parseCount(fields[5])
	if !okNumber || !okName || !okAddr || !okSince || len(fields[4]) != 1 {
		return seat{}, fmt.Errorf("%q is no seat", conn.Sanitize(text))
	}
	return seat{
		number: int(min(number, quorum.MaxMasters)), name: name, addr: addr, memory: fromDash(fields[3]), state: seatState(fields[4][0]), since: since,
	}, nil
}
