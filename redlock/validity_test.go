package redlock

// The validity formula and the tokens, as tables.

import (
	"strings"
	"testing"
	"time"
)

func TestValidity(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		ttl, elapsed time.Duration
		factor       float64
		want         time.Duration
	}{
		{10_000 * ms, 50 * ms, 0.01, 10_000*ms - 50*ms - 100*ms - 2*ms},
		{30_000 * ms, 0, 0.01, 29_698 * ms},
		{2_000 * ms, 0, 0.01, 1_978 * ms},
		{1_000 * ms, 0, 0.01, 983 * ms}, // 5 ms for the rates, a step of 10 ms, 2 ms
		{20 * ms, 1 * ms, 0.01, 6900 * time.Microsecond},
		{20 * ms, 8 * ms, 0.01, -100 * time.Microsecond},
		{20 * ms, 0, 0.5, 3 * ms},
	} {
		if got := validityOf(tt.ttl, tt.elapsed, driftOf(tt.ttl, drift{tt.factor, 10 * ms})); got != tt.want {
			t.Errorf("ttl %v, elapsed %v, factor %v: got %v, want %v", tt.ttl, tt.elapsed, tt.factor, got, tt.want)
		}
	}
}

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
