package redlock

import (
	"context"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// pendingMax bounds the releases that are kept for one master. Beyond it the oldest give way: their
// keys stay until their TTL, which lets nobody in too early.
const pendingMax = 1 << 16

// pendingReleases are releases for a master that is away. It gets them when it is back, before new
// work. Without them, a key whose SET was answered by silence stays, and keeps everybody out of
// that master, until its TTL. They stand in the order in which they expire, for all are kept
// equally long.
//
// Invariant: only tokens that redlockd made are released late. A caller may have been granted its
// own token again by then (op_undo.go).
type pendingReleases []pendingRelease

// pendingRelease is one key that may hold one token.
type pendingRelease struct {
	key, token string
	expiresAt  time.Time // the key has ended by then
}

// add keeps a release behind all others. The oldest gives way if there are pendingMax.
func (p *pendingReleases) add(release pendingRelease) {
	if len(*p) >= pendingMax {
		p.remove(1)
	}
	*p = append(*p, release) //mutant:releases-not-kept
}

// remove forgets the first n.
func (p *pendingReleases) remove(n int) {
	clear((*p)[:n])
	if *p = (*p)[n:]; len(*p) == 0 {
		*p = nil
	}
}

// expire forgets those whose keys have ended.
func (p *pendingReleases) expire(now time.Time) {
	n := 0
	for n < len(*p) && now.After((*p)[n].expiresAt) { //mutant:kept-releases-do-not-expire
		n++
	}
	if n > 0 {
		p.remove(n)
	}
}

// flushReleases sends the master its pending releases.
func flushReleases(ctx context.Context, conn *conn.Conn, releases []pendingRelease) error {
	// One key may be released for two tokens. The script wants keys that differ.
	for len(releases) > 0 {
		seen := make(map[string]bool, len(releases))
		keys, args := []string{}, []any{0}
		var rest []pendingRelease
		for _, release := range releases {
			if seen[release.key] {
				rest = append(rest, release)
				continue
			}
			seen[release.key] = true
			keys, args = append(keys, release.key), append(args, release.token)
		}
		if err := conn.Call(ctx, lua.Release, keys, args...).Err(); err != nil {
			return err
		}
		releases = rest
	}
	return nil
}
