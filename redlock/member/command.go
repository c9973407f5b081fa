package member

import (
	"strconv"
	"time"
)

// BeatArgs are the ARGV of lua.MemberBeat: settled is what the master shows, without an accepted child,
// where it has settled on the record that the proxy goes by; agrees tells that the master's clock
// agrees with the proxy's, so that its stamps may be set; skew is Options.ClockSkewMax; stamps are StampField and TTLStampField of
// the listings whose timers run; heard are the seats whose listed memory this proxy hears; seats are
// all seats of the record.
func BeatArgs(settled string, agrees bool, skew time.Duration, stamps []string, heard, seats []int) []any {
	set := 0
	if agrees {
		set = 1
	}
	args := []any{settled, set, len(stamps), len(heard), skew.Milliseconds()}
	for _, stamp := range stamps {
		args = append(args, stamp)
	}
	for _, list := range [][]int{heard, seats} {
		for _, number := range list {
			args = append(args, HeardField(number))
		}
	}
	return args
}

// StampField is the field of the hash for the timer of a seat of r.
func (r *Record) StampField(s *Seat) string { return r.stamp(strconv.Itoa(s.Number), s.Since) }

// TTLStampField is the field of the hash for the timer of r's max_ttl.
func (r *Record) TTLStampField() string { return r.stamp("ttl", r.TTLSince) }

func (r *Record) stamp(what string, since int64) string {
	return "s:" + strconv.FormatInt(r.Generation, 10) + "-" + r.Lineage + ":" + what + "@" + strconv.FormatInt(since, 10) //mutant:stamps-of-another-listing
}

// HeardField is the field of the hash that tells when the listed memory of a seat was last heard.
func HeardField(number int) string { return "h:" + strconv.Itoa(number) }
