package redlock

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What all proxies of a master must agree on stands on the master twice, while any of them lives: as a
// fingerprint in redlockd:config, which every batch compares, and in full in redlockd:settings, which is read
// only to explain a refusal. The fingerprint alone decides, as it did before there was a second key: so proxies
// of both versions exclude each other.
const settingsKey = ReservedPrefix + "settings"

// settingsMax bounds the text of agreedSettings, in bytes. Of more, which only masters with long names need,
// nothing is written.
const settingsMax = 4096

// agreedSettings is what all proxies must agree on, or two of them could each have a quorum: which masters
// there are (by name, in order), and how long a quarantine has to be.
type agreedSettings struct {
	MaxTTL  int64    `json:"max_ttl_ms"`
	Masters []string `json:"masters"`
}

func agreedSettingsOf(o Options) agreedSettings {
	s := agreedSettings{MaxTTL: o.MaxTTL.Milliseconds()}
	for _, m := range o.Masters {
		s.Masters = append(s.Masters, m.name())
	}
	slices.Sort(s.Masters)
	return s
}

// text is what redlockd:settings holds. There are no passwords in it.
func (s agreedSettings) text() string {
	text, err := json.Marshal(s)
	if err != nil || len(text) > settingsMax {
		return ""
	}
	return string(text)
}

// fingerprint is what redlockd:config holds. Its form must not change: see the head of this file.
func (s agreedSettings) fingerprint() string {
	n := len(s.Masters)
	return fmt.Sprintf("max_ttl=%dms quorum=%d/%d masters=%s", s.MaxTTL, quorumOf(n), n, TokenDigest(strings.Join(s.Masters, "\n")))
}

// disagreement says what other proxies, whose fingerprint and settings a master has, do differently from these
// options. Their text counts only if the fingerprint is its own: anybody who can write to the master may have
// written it, and older proxies write none.
func disagreement(o Options, fingerprint, text string) string {
	ours := agreedSettingsOf(o)
	var theirs agreedSettings
	if len(text) > settingsMax || json.Unmarshal([]byte(text), &theirs) != nil || theirs.fingerprint() != fingerprint {
		return fmt.Sprintf("other proxies use %q, this one %q", shown(fingerprint), ours.fingerprint())
	}
	var parts []string
	if theirs.MaxTTL != ours.MaxTTL {
		ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
		parts = append(parts, fmt.Sprintf("max_ttl is %v there, %v here", ms(theirs.MaxTTL), ms(ours.MaxTTL)))
	}
	for _, side := range []struct {
		where     string
		with, not []string
	}{{"there", theirs.Masters, ours.Masters}, {"here", ours.Masters, theirs.Masters}} {
		var only []string
		for _, name := range side.with {
			if !slices.Contains(side.not, name) {
				only = append(only, shown(name))
			}
		}
		if len(only) > 0 {
			parts = append(parts, fmt.Sprintf("masters named only %s: %s", side.where, strings.Join(only, ", ")))
		}
	}
	return "other proxies use other settings: " + strings.Join(parts, "; ")
}

// toAgree is what to do about a disagreement.
const toAgree = "give all proxies the same masters and max_ttl, or stop the others and wait for one max_ttl"

// disagreed is the refusal of a master where other proxies have another fingerprint, with the reason in full.
func (l *lane) disagreed(ctx context.Context, conn *masterConn, fingerprint string) error {
	text, _ := conn.redis.Get(ctx, settingsKey).Result() // without it the fingerprints are shown
	return &refusedError{disagreement(l.client.opts, fingerprint, text) + ": " + toAgree}
}
