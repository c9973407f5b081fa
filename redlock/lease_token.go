package redlock

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A token made here is 20 bytes from the system's secure source, as "Correct implementation with a
// single instance" advises, in base64url, a dot, and the time of its birth in milliseconds since
// 1970 in base 36. Any client can hold it as text, and any proxy can tell from it alone how long
// the lock has been held (Options.MaxHold).
const (
	tokenRandomBytes = 20
	tokenRandomText  = 27 // base64 of 20 bytes without padding
	tokenBase        = 36
)

// tokenSource hands out random bytes from a buffer, because one system call per token would cost
// more than the rest of it.
type tokenSource struct {
	mu     sync.Mutex
	random *bufio.Reader
}

func newTokenSource() *tokenSource {
	return &tokenSource{random: bufio.NewReaderSize(rand.Reader, 100*tokenRandomBytes)}
}

// make returns a token that was never used before, with its birth. It may be called with Client.mu
// held: it does not block for long.
func (s *tokenSource) make(now time.Time) string {
	var raw [tokenRandomBytes]byte
	s.mu.Lock()
	for n := 0; n < len(raw); {
		// crypto/rand.Reader never fails (it ends the process instead), and bufio passes that on.
		m, _ := s.random.Read(raw[n:])
		n += m
	}
	s.mu.Unlock()
	text := make([]byte, tokenRandomText, tokenRandomText+12)
	base64.RawURLEncoding.Encode(text, raw[:])
	text = append(text, '.')
	return string(strconv.AppendInt(text, now.UnixMilli(), tokenBase))
}

// tokenBirth tells when a token made by a redlockd was made. A caller's own token of the same shape
// is taken for one: a client that imitates the form limits or extends no lock but its own.
func tokenBirth(token string) (time.Time, bool) {
	if len(token) <= tokenRandomText || token[tokenRandomText] != '.' || strings.ToLower(token[tokenRandomText+1:]) != token[tokenRandomText+1:] {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(token[tokenRandomText+1:], tokenBase, 64)
	if err != nil || ms < 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(ms), true
}

// madeHere tells whether a redlockd made the token, as far as its form tells. Then it serves one
// attempt, and is used up when it is released. A caller that repeats a LOCK with a token of this
// form after its UNLOCK may lose the lock to a release that was kept.
func madeHere(token string) bool {
	_, known := tokenBirth(token) //mutant:releases-of-callers-tokens-kept
	return known
}
