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
	for range 1000 {
		token := source.make(now)
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
	for _, other := range []string{"", "x", strings.Repeat("a", 27), strings.Repeat("a", 27) + ".", strings.Repeat("a", 27) + ".-1", strings.Repeat("a", 27) + ".$", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", strings.Repeat("a", 27) + ".zzzzzzzzzzzzzzzzzzzzzz"} {
		if born, ok := tokenBirth(other); ok {
			t.Errorf("token %q of somebody else: got birth %v, want none", other, born)
		}
	}
}
