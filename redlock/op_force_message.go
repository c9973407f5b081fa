package redlock

import (
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// forcedRelease is a forced release as all clients are told of it. Client.mu guards what follows the
// blank line.
type forcedRelease struct {
	id       string // by which the copies of the message are known
	resource string
	digests  []string // of the tokens

	by       quorum.Mask // the masters that have sent it
	since    time.Time   // when the first of them did
	applied  bool
	launched uint32 // the last round that was launched here before it was applied
}

// forcedReleases are those of late, the oldest first. Client.mu guards it.
type forcedReleases struct{ all []*forcedRelease }

const (
	// forceReadersMax is how many readers one operation releases.
	forceReadersMax = 256
	// forcedPrefix begins the text of a forced release on windowsChannel; an id, the digests with commas
	// between them and the resource follow, with blanks between them. No resource begins so, and so
	// proxies of versions before ignore it.
	forcedPrefix = lua.ReservedPrefix + "forced:"
	// forcedLife is for how long it is remembered: rounds that were launched before it are decided by
	// then.
	forcedLife = 10 * time.Second
	// forcedMax bounds those that are remembered. The oldest give way, and before them those that fewer
	// masters than a quorum have sent: one master can make up very many.
	forcedMax = 256
)

func (f *forcedRelease) text() string {
	return forcedPrefix + f.id + " " + strings.Join(f.digests, ",") + " " + f.resource
}

// parseForced reads what follows forcedPrefix.
func parseForced(text string) (*forcedRelease, bool) {
	id, rest, _ := strings.Cut(text, " ")
	digests, resource, _ := strings.Cut(rest, " ")
	f := &forcedRelease{id: strings.Clone(id), resource: strings.Clone(resource), digests: strings.Split(digests, ",")}
	ok := member.IsHex(id, member.NonceLen) && resource != "" && len(resource) <= lua.MaxResourceLen && len(f.digests) <= forceReadersMax+2
	for _, digest := range f.digests {
		ok = ok && member.IsHex(digest, conn.DigestLen)
	}
	return f, ok
}

// remember remembers a forced release, and returns what is known of it already, if it is
// known. Another text under the same id is another release, so that copies of a true message do not
// count for what one master puts in its place.
func (fs *forcedReleases) remember(f *forcedRelease, now time.Time) *forcedRelease {
	fs.expire(now)
	same := func(known *forcedRelease) bool {
		return known.id == f.id && known.text() == f.text() //mutant:a-force-with-another-text-counts
	}
	if i := slices.IndexFunc(fs.all, same); i >= 0 {
		return fs.all[i]
	}
	if len(fs.all) >= forcedMax {
		pending := func(known *forcedRelease) bool { return !known.applied } //mutant:made-up-forces-push-out-true-ones
		oldest := max(0, slices.IndexFunc(fs.all, pending))
		fs.all = slices.Delete(fs.all, oldest, oldest+1)
	}
	f.since = now
	fs.all = append(fs.all, f)
	return f
}

func (fs *forcedReleases) expire(now time.Time) {
	n := 0
	for n < len(fs.all) && now.Sub(fs.all[n].since) > forcedLife {
		n++
	}
	fs.all = slices.Delete(fs.all, 0, n)
}
