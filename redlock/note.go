package redlock

import (
	"log/slog"
	"strings"
	"time"
)

// HolderNote says who holds a lock, or waits for one, and what for. It stays with the Client that
// granted the lock, and must not be changed. All operations of one caller can share one: then it costs
// a lease the pointer that it has anyway.
type HolderNote struct {
	Text string // what the lock is for, in the caller's words; "": it gave none
	// Client is the name of the caller, Addr its address and User whose account it uses.
	Client, Addr, User string
}

// noteOf is the note of a lock that its token is granted once more: a text stays until another one
// comes.
func noteOf(now, before *HolderNote) *HolderNote {
	switch {
	case now == nil:
		return before
	case before == nil || before.Text == "" || now.Text != "":
		return now
	}
	merged := *now
	merged.Text = before.Text
	return &merged
}

// who is the caller, in a few words.
func (n *HolderNote) who() string {
	if n == nil || n.User+n.Client+n.Addr == "" {
		return "a caller without a name"
	}
	var words []string
	if n.User != "" {
		words = append(words, "user "+n.User)
	}
	if n.Client != "" {
		words = append(words, "client "+n.Client)
	}
	if n.Addr != "" {
		words = append(words, "at "+n.Addr)
	}
	return strings.Join(words, " ")
}

// attr is the note in the log, with the time since when the lock has been held; zero: that is not
// known.
func (n *HolderNote) attr(since time.Time) slog.Attr {
	if n == nil {
		return slog.Attr{}
	}
	var attrs []slog.Attr
	for _, a := range []slog.Attr{slog.String("note", n.Text), slog.String("client", n.Client), slog.String("addr", n.Addr), slog.String("user", n.User)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if !since.IsZero() {
		attrs = append(attrs, slog.Time("since", since.Round(time.Millisecond)))
	}
	return slog.Attr{Value: slog.GroupValue(attrs...)}
}
