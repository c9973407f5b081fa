package conn

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unicode"
)

// What masters send is not trusted: here is what makes it fit for logs and replies, and what keeps a
// panic over it from ending the process.

const (
	// textMax bounds what logs and replies show of one text that a master has sent, in bytes.
	textMax = 200
	// ErrorTextMax bounds the text of an error that is kept of a master. It has room for what the error
	// says about such a text.
	ErrorTextMax = 5 * textMax
)

// Sanitize is a text that a master has sent, fit for logs and replies: short, and without what a
// terminal would obey.
func Sanitize(text string) string { return Printable(text, textMax) }

// Printable is the text without what a terminal would obey, cut off after most bytes.
func Printable(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, text)
}

// Shorten is the error with a text that is fit for logs and replies. In those of go-redis there can be
// all that a master has sent.
func Shorten(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if short := Printable(text, ErrorTextMax); short != text {
		return &shortError{short, err}
	}
	return err
}

// shortError is an error with another text.
type shortError struct {
	text string
	err  error
}

func (e *shortError) Error() string { return e.text }
func (e *shortError) Unwrap() error { return e.err }

// RecoverPanic runs f, which reads what a master sends, and makes an error of a panic: then one master
// is lost, and not the process with all its locks. It is the second line of defence, after the bounds
// of what is read (package resp): memory that has run out cannot be recovered from.
//
// Invariant: f holds no lock where it reads. What it has half done must not count when it returns an
// error.
func RecoverPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil { //mutant:a-panic-ends-the-process
			if bug, ours := p.(Bug); ours {
				panic(bug)
			}
			err = &RefusedError{fmt.Sprintf("redlockd failed on what it sends: %v, in %s: please report this", p, panicked())}
		}
	}()
	return f()
}

// panicked is the function that has panicked first: go-redis recovers, and panics again, while it holds
// a connection. The deferred function that recovers in RecoverPanic must call it.
func panicked() string {
	var calls [64]uintptr
	frames := runtime.CallersFrames(calls[:runtime.Callers(3, calls[:])])
	var first runtime.Frame
	for below := true; ; {
		frame, more := frames.Next()
		within := strings.HasPrefix(frame.Function, "runtime.")
		if below && !within {
			first = frame
		}
		if below = within; !more || strings.HasSuffix(frame.Function, ".RecoverPanic") {
			return fmt.Sprintf("%s, line %d", first.Function, first.Line)
		}
	}
}

// DigestLen is the length of a Digest.
const DigestLen = 16

// KeyedDigest is a Digest that only those can make who know the key: the beginning of an HMAC.
func KeyedDigest(key, value string) string {
	sum := hmac.New(sha256.New, []byte(key))
	io.WriteString(sum, value)
	return hex.EncodeToString(sum.Sum(nil)[:DigestLen/2])
}

// Digest tells values apart without giving one away: the first 16 hex digits of the SHA-256.
func Digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:DigestLen/2])
}

// RefusedError is a reason for which a master gets no vote and no commands until it goes away.
type RefusedError struct{ Reason string }

// RefusedPrefix begins the text of every RefusedError.
const RefusedPrefix = "refused: "

func (e *RefusedError) Error() string { return RefusedPrefix + e.Reason }

// Bug is a panic that ends the process: a state was reached that cannot be.
type Bug string

// IsRefused tells whether err is, or wraps, a RefusedError.
func IsRefused(err error) bool {
	_, refused := errors.AsType[*RefusedError](err)
	return refused
}
