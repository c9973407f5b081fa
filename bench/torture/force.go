package main

// UNLOCK … FORCE by an operator. He cannot know whether the holder has stopped, and here it never has: its lock ends, and what it believes
// from then on is worth nothing. Fences keep its writes out, so the registers are judged as if there were no FORCE.

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// forced is one UNLOCK … FORCE. It took effect between from and to, if at all.
type forced struct {
	resource string
	from, to int64
	released bool     // it said so
	tokens   []string // digests of those that it released
	fence    int64    // above those of before; 0: none
}

// forcesMost bounds how many locks an operator ends at a time.
const forcesMost = 4

// force has an operator end some locks through a redlockd.
func (n *nemesis) force() *strike {
	free := n.freeRedlockds()
	if len(free) == 0 {
		return nil
	}
	through := free[n.random.IntN(len(free))]
	var names []string
	for _, i := range n.random.Perm(resources)[:1+n.random.IntN(forcesMost)] {
		names = append(names, fmt.Sprint("r", i))
	}
	if n.random.IntN(2) == 0 {
		names = append(names, fmt.Sprintf("%s#%d", slotGroup, n.random.IntN(slotsMost)))
	}
	// A redlockd that is killed or frozen now would answer nobody, and might do it later.
	return &strike{parties: []string{through.host.name}, reserved: []string{through.host.name}, detail: strings.Join(names, " "),
		begin: func(ctx context.Context) error {
			c := n.cluster.connect(through)
			defer c.Close()
			n.cluster.noteLineages(ctx)
			for _, name := range names {
				f := forced{resource: name, from: monotonic()}
				reply, err := c.Do(context.WithoutCancel(ctx), "UNLOCK", name, "FORCE", "torture").Slice()
				f.to = monotonic()
				n.history.force(f, reply, err)
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		}}
}

// force adds what an operator was told.
func (h *history) force(f forced, reply []any, err error) {
	outcome := "FORCE: nobody held it"
	for i := 0; i+1 < len(reply); i += 2 {
		switch reply[i] {
		case "released":
			f.released = reply[i+1] == int64(1)
		case "fence":
			f.fence, _ = reply[i+1].(int64)
		case "token-digests":
			for _, digest := range reply[i+1].([]any) {
				f.tokens = append(f.tokens, fmt.Sprint(digest))
			}
		}
	}
	switch {
	case err != nil:
		outcome = "FORCE: " + codeOf(err.Error())
	case f.released:
		outcome = "FORCE: released"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forces = append(h.forces, f)
	h.byForce[outcome]++
}

// mayEnd says whether a FORCE may have ended a lease. If it said which tokens it released, these alone; redlockds make a digest of a token with the
// lineage of the membership. Else, or where a library keeps its tokens to itself: one that was asked for before the operator had his answer.
func (f forced) mayEnd(l *lease, lineages map[string]bool) bool {
	if l.resource != f.resource || l.grants[0].asked >= f.to {
		return false
	}
	if !f.released || l.token == "" || len(lineages) == 0 {
		return true
	}
	for lineage := range lineages {
		if slices.Contains(f.tokens, keyedDigest(lineage, l.token)) {
			return true
		}
	}
	return false
}

// keyedDigest is what people are shown of a token.
func keyedDigest(lineage, token string) string {
	sum := hmac.New(sha256.New, []byte(lineage))
	sum.Write([]byte(token))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// applyForces ends the leases that were forced, and finds what must not be: one that was extended though it was forced, and fences of nobody's
// that do not fit between those before and those after. It returns the latter as leases that nobody believed in.
func applyForces(leases []*lease, forces []forced, lineages map[string]bool) (marks []*lease, found []violation) {
	for _, f := range forces {
		for _, l := range leases {
			if !f.mayEnd(l, lineages) || l.until() <= f.from {
				continue
			}
			again := l.grants[len(l.grants)-1].asked >= f.from // its token may have been locked with once more
			for _, r := range l.renewals {
				if f.released && !again && r.asked > f.to {
					found = append(found, violation{r.granted, l.resource, fmt.Sprintf("%s was extended %.3f ms after FORCE had released it", l, float64(r.asked-f.to)/1e6)})
				}
			}
			l.end(f.from)
		}
		if f.fence != 0 {
			marks = append(marks, &lease{who: "FORCE", resource: f.resource, fence: f.fence, grants: []grant{{f.fence, f.from, f.to}}})
		}
	}
	return marks, found
}

// noteLineages reads the lineages that the masters show, of which redlockds make the digests of tokens. A founding makes a new one.
func (c *cluster) noteLineages(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for _, m := range c.masters() {
		record, _ := m.admin.HGet(ctx, "redlockd:members", "r").Result() // format;generation-lineage;…
		if parts := strings.Split(record, ";"); len(parts) > 1 {
			if _, lineage, ok := strings.Cut(parts[1], "-"); ok {
				c.mu.Lock()
				c.lineages[lineage] = true
				c.mu.Unlock()
			}
		}
	}
}

// refusal is a fence that the register refused, at a time when its holder believed in its lock.
type refusal struct {
	lease *lease
	at    int64
	until int64 // what its holder believed then
}

// unjust are refusals that no FORCE explains.
func unjust(refusals []refusal, forces []forced, lineages map[string]bool) (found []violation) {
	for _, r := range refusals {
		ended := false
		for _, f := range forces {
			ended = ended || f.mayEnd(r.lease, lineages) && f.from <= r.at
		}
		if !ended {
			found = append(found, violation{r.at, r.lease.resource, fmt.Sprintf("the register refused the fence of %s, %.3f ms before the end of its validity", r.lease, float64(r.until-r.at)/1e6)})
		}
	}
	return found
}
