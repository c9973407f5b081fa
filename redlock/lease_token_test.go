package redlock

// The tokens that are made here.

import (
	"strings"
	"testing"
	"time"
)

func TestTokenCarriesItsBirth(t *testing.T) {
	source := newTokenSource()
	now := time.UnixMilli(1_790_000_000_123)
	seen := map[string]bool{}
	starts := map[byte]bool{} // a letter tells of the first byte, which is as random as the others
	for range 1000 {
		token := source.make(now)
		starts[token[0]] = true
		if seen[token] {
			t.Fatalf("token %s was made twice", token)
		}
		seen[token] = true
		born, ok := tokenBirth(token)
		if !ok || !born.Equal(now) {
			t.Fatalf("birth of %s: got %v, %v, want %v", token, born, ok, now)
		}
		if strings.ContainsAny(token, " \"'\\\r\n") || len(token) > 40 {
			t.Fatalf("token %q is not what every client can hold as text", token)
		}
	}
	if len(starts) < 32 {
		t.Errorf("1000 tokens begin with %d different letters of 64", len(starts))
	}
	if born, ok := tokenBirth(strings.Repeat("a", 27) + ".0"); !ok || !born.Equal(time.UnixMilli(0)) {
		t.Errorf("birth at the beginning of 1970: got %v, %v", born, ok)
	}
	for _, other := range []string{"", "x", strings.Repeat("a", 27) + ".MZ", strings.Repeat("a", 27) + ".mZ", strings.Repeat("a", 27), strings.Repeat("a", 27) + ".", strings.Repeat("a", 27) + ".-1", strings.Repeat("a", 27) + ".$", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", strings.Repeat("a", 27) + ".zzzzzzzzzzzzzzzzzzzzzz"} {
		if born, ok := tokenBirth(other); ok {
			t.Errorf("token %q of somebody else: got birth %v, want none", other, born)
		}
	}
}

// What only looks like a token of redlockd tells no birth.
func TestWhatLooksLikeAToken(t *testing.T) {
	random := strings.Repeat("r", tokenRandomText)
	for token, want := range map[string]int64{
		random + ".0": 0, random + ".1": 1, random + ".z": 35, random + ".10": 36,
		random: -1, random + ".": -1, random + ".-1": -1, random + ".Z": -1, random + "-0": -1, random + ".ß": -1, random + "r.0": -1, random + ".zzzzzzzzzzzzzzzzzzz": -1, "": -1,
	} {
		born, known := tokenBirth(token)
		if known != (want >= 0) || known && born.UnixMilli() != want || madeHere(token) != known {
			t.Errorf("%q: got %v, %t, want %d", token, born.UnixMilli(), known, want)
		}
	}
}
