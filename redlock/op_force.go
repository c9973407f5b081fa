package redlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// UNLOCK … FORCE: somebody who does not have the token ends a lock. It is the UNLOCK of whatever token
// holds the resource, in two rounds:
//
//  1. verbRaise raises the mark of the resource on a quorum of masters, above every fence that the
//     holder can have, and reads who holds it. Without that quorum nothing is released. The new mark is
//     a fence of nobody's, Forced.Fence: a resource that is told of it refuses what the old holder
//     writes, and every later grant has a higher one.
//  2. verbForce compares and deletes, as UNLOCK does, each token that a quorum of masters has shown;
//     for a token that redlockd did not make, verbForceCallers compares when the key ends, too. The
//     masters publish that on windowsChannel, behind the deletion (forcedPrefix).
//
// Each client that a quorum of masters has sent the message to applies it: it renews such a lock no
// more, tells its holder of the loss, and releases the token itself, behind all that it has sent, so
// that what it has just given back to a master (refillLocked) goes, too. What it launched before for
// such a token grants nothing any more (forcedReleases.ended).
//
// Invariants:
//   - Only tokens that a quorum of masters shows are deleted. On fewer it may be another's attempt
//     under way, whose votes count already: without its keys, two would hold the lock. Where masters
//     hold different tokens, and so many do that nobody can be granted it, they are read once more
//     behind splitAfter: by then such an attempt is decided. What is the same, with the same end, goes.
//   - What is deleted is compared. Rejected: deleting whatever there is. A master that executes that
//     late would end the lock of the next holder.
//   - A caller that chose its token does not know of the force, and may repeat its LOCK. So that a
//     master which executes the release late does not end that lock, the key must end when the first
//     round has found that it does, within 3 ms (slack, lua/force.lua). As in op_undo.go, who counts on
//     a key that is there moves its end by endMove.
//   - A message ends a lock only if a quorum of masters has sent it, so that one false master ends
//     none.
//
// What is left is a key that was set, removed and set again within 3 ms, or by chance to the same end,
// beside a force that has found the first. testdata/tla/Lock.tla has the rule, and what it takes for
// granted.
//
// What a client cannot know of, it goes on believing: if the masters do not reach it, it learns of it
// with its next renewal or EXTEND. And a holder that asks nobody works on until its validity is over,
// beside the next one; only fences stop its writes.

// Forced is what StartForce has done and seen.
type Forced struct {
	// Tokens are the digests of the tokens (TokenDigest) that held the resource: one, or those of readers.
	// None: nobody held it.
	Tokens []string
	// digests are conn.Digest of the same.
	digests []string
	// Fence is above all fences of these tokens, and below all that are granted later for the resource.
	Fence int64
	// Gone is how many masters hold none of the tokens any more, as they have said. On the others a token
	// that a redlockd made is released when they are back, and any other ends with its TTL.
	Gone int
	// Another is how many masters hold another token now: that of the next holder, or of the old one if it
	// was changing it meanwhile.
	Another int
	// Renewed is how many masters hold the token still, because the holder has renewed its lock meanwhile.
	Renewed int
	// Masters is how many there are.
	Masters int
	// Readers is how many readers are left: more than forceReadersMax take several operations.
	Readers int
}

// splitReadings is how often one operation reads what masters with different tokens hold.
const splitReadings = 3

// splitAfter is how long the same must be there: an attempt that has set it is decided by then.
func (o *Options) splitAfter() time.Duration { return helpAfter * o.MasterTimeout }

// force is one StartForce on its way. Client.mu guards it.
type force struct {
	op       Op // of its rounds; their results go to caller
	caller   *Op
	resource string
	raises   int // rounds of verbRaise so far
	// split is what masters held at the last reading, if no quorum held anything and too few nothing.
	split   map[keyHolder]*sighting
	splits  int // how many such readings there were
	result  Forced
	pending int // releases that are not decided
	removed bool
	err     error
}

// StartForce releases a resource without the token. The holder can be a writer, readers, or who has
// written a value there. Result.Held tells whether somebody held it, and Result.Forced what was done.
// It is for administrators: the holder does not agree, and may work on until its validity is over. Of a
// lock of several resources only this one is released.
//
// A *NoQuorumError: too few masters have answered to tell who holds it, or to raise the fence, and
// nothing was released; or to tell whether it is released. A *RequestError: the lock has changed hands
// meanwhile, or the key is not redlockd's; or nobody holds it, and nobody can lock it, because masters
// hold different tokens.
func (c *Client) StartForce(op *Op, resource string, to Completer) {
	d := c.enter()
	defer c.leave(d)
	op.to = to
	if err := checkResources([]string{resource}, 1); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	f := &force{caller: op, resource: strings.Clone(resource)}
	f.op.force, f.op.Share = f, op.Share
	c.raiseLocked(f, d)
}

// raiseLocked launches the first round.
func (c *Client) raiseLocked(f *force, d *deferred) {
	f.raises++
	now := time.Now()
	r := &round{verb: verbRaise, start: now, fence: c.fences.Next(now), op: &f.op}
	r.setKeys(f.resource)
	c.rounds.launch(r, quorum.All, d)
}

func writeRaise(b *batch, r *round) {
	w := b.wire
	b.script(lua.Raise, 2, 1, 3)
	w.Bulk(lua.MarksKey)
	w.Bulk(lua.FloorKey)
	b.resources(r)
	w.Number(r.fence)
	w.Number(int64(b.lane.fleet.opts.FenceMarks))
	w.Number(forceReadersMax)
}

func readRaise(b *batch, cmd command, first conn.Reply) (v quorum.Vote, refused, err error) {
	r := b.rounds[cmd.round]
	a := answer{known: true}
	var raised int64
	refused, err = b.readArray(first, 7, ":$$::$:", func(i int, element conn.Reply) (over error) {
		switch i {
		case 0:
			raised = element.N
		case 1:
			a.kind = conn.Sanitize(string(element.Text))
		case 2:
			a.value, over = b.keep(element)
		case 3:
			a.ends = element.N
		case 4:
			a.readers = int32(min(max(element.N, -1), 1<<30))
		case 5:
			var list string
			if list, over = b.keep(element); over == nil {
				a.keys, over = readersIn(list)
			}
		default:
			a.endsIn(element.N)
			for i := range a.keys {
				a.keys[i].endsIn(element.N)
			}
		}
		return over
	})
	switch {
	case refused != nil || err != nil:
		return quorum.Unknown, refused, err
	case raised == 1:
		v = quorum.Granted
	case raised == fence.Ahead || raised >= r.fence:
		v, refused = b.fenceRefused(r, raised)
	default:
		return quorum.Unknown, nil, conn.ProtocolError(conn.Reply{Kind: ':', N: raised})
	}
	b.readings = append(b.readings, reading{round: r, answer: a})
	return v, refused, nil
}

// endsIn takes in what the clock of a master says whose key has an end.
func (a *answer) endsIn(now int64) {
	a.ttl = -1
	if a.ends != 0 {
		a.ttl = time.Duration(a.ends-now) * time.Millisecond
	}
}

// readersIn reads the tokens of readers as lua.Raise lists them.
func readersIn(text string) (readers []answer, err error) {
	for len(text) > 0 {
		length, rest, _ := strings.Cut(text, ":")
		ends, rest, _ := strings.Cut(rest, ":")
		n, _ := strconv.Atoi(length) // of no number it makes a length that no token has
		end, err := strconv.ParseInt(ends, 10, 64)
		if err != nil || n < 1 || n > min(MaxTokenLen, len(rest)) || len(readers) > forceReadersMax+1 {
			return nil, conn.Error("ERR the readers are listed as no redlockd lists them: " + conn.Sanitize(text[:min(len(text), 32)]))
		}
		readers = append(readers, answer{value: rest[:n], ends: end})
		text = rest[n:]
	}
	return readers, nil
}

// A master that has not told of the token has no end of it, and keeps what it has.
func writeForceCallers(b *batch, r *round) {
	b.script(lua.Force, 0, 1, 2)
	b.resources(r)
	b.wire.Bulk(r.token)
	b.wire.Number(r.answers[b.lane.index].ends)
}

// markRaised releases what holds the resource once a quorum of masters has the new mark. If it was too
// low for some, the next one is above every mark that was seen.
func (c *Client) markRaised(r *round, _ quorum.Outcome, v quorum.Votes, d *deferred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, t, majority := r.op.force, v.Tally(r.view.Places), r.view.Quorum()
	c.fences.Observe(r.mark.Load(), r.start)
	switch {
	case t.Of(quorum.Granted) >= majority: //mutant:forced-without-a-quorum-of-marks
		c.releaseHoldersLocked(f, r, v, d)
	case t.Of(quorum.Granted)+t.Of(quorum.Stale) >= majority && f.raises < fenceRetries:
		c.raiseLocked(f, d)
	default:
		d.deliver(f.caller, Result{Err: r.noQuorumError(v, majority, 0)})
	}
}

// keyHolder is who holds a key: the token or the value in it, or a reader's token among others.
type keyHolder struct {
	token  string
	reader bool
}

// sighting is where a round of verbRaise has found a holder.
type sighting struct {
	masters int
	ends    [MaxMasters]int64 // by place: when the key, or the reader's place in it, ends by the master's clock. 0: it was not found there, or has no TTL
	left    time.Duration     // what is left until the last of these ends; negative: it has no TTL
}

// keyHolders are the holders that a round of verbRaise has found.
type keyHolders struct {
	all     []keyHolder // those that a quorum of masters has shown, in order
	found   map[keyHolder]*sighting
	readers int // how many readers the master with most of them has
	free    int // the masters where nobody has the key
	silent  int // the masters that have not answered
	// possible: there is none, and could be one beside the masters that are silent.
	possible  bool
	strangers []string // by master, the type of a key that is not redlockd's
}

func (r *round) keyHolders() (h keyHolders) {
	h.found = make(map[keyHolder]*sighting)
	quorum := r.view.Quorum()
	see := func(holder keyHolder, place int, a *answer) {
		s := h.found[holder]
		if s == nil {
			s = &sighting{left: -1}
			h.found[holder] = s
		}
		s.masters++
		s.ends[place] = a.ends
		s.left = max(s.left, a.ttl)
	}
	for _, l := range r.view.masters {
		switch a := &r.answers[l.index]; {
		case !a.known:
			h.silent++
		case a.kind == "string":
			see(keyHolder{a.value, false}, l.index, a)
		case a.readers > 0:
			h.readers = max(h.readers, int(a.readers))
			for i := range a.keys {
				see(keyHolder{a.keys[i].value, true}, l.index, &a.keys[i])
			}
		case a.readers == 0, a.kind == "none":
			h.free++
		default:
			h.strangers = append(h.strangers, a.kind)
		}
	}
	most := 0
	for holder, s := range h.found {
		most = max(most, s.masters)
		if s.masters >= quorum { //mutant:an-attempt-under-way-is-forced
			h.all = append(h.all, holder)
		}
	}
	slices.SortFunc(h.all, func(a, b keyHolder) int { return strings.Compare(a.token, b.token) })
	h.possible = len(h.all) == 0 && most+h.silent >= quorum
	return h
}

// splitShown bounds the tokens that an error about split votes names.
const splitShown = 8

// split tells which masters hold what, where nobody holds the resource.
func (h *keyHolders) split(c *Client) string {
	all := slices.SortedFunc(maps.Keys(h.found), func(a, b keyHolder) int {
		x, y := h.found[a], h.found[b]
		return cmp.Or(y.masters-x.masters, cmp.Compare(y.left, x.left), strings.Compare(a.token, b.token))
	})
	var parts []string
	add := func(masters int, one, more, what string) {
		if masters > 1 {
			one = more
		}
		if masters > 0 {
			parts = append(parts, fmt.Sprintf("%d %s %s", masters, one, what))
		}
	}
	for _, holder := range all[:min(len(all), splitShown)] {
		s, of, ends := h.found[holder], "", "does not end: remove it there by hand"
		if holder.reader {
			of = "reader's "
		}
		if s.left >= 0 {
			ends = "ends in " + s.left.String()
		}
		add(s.masters, "holds", "hold", fmt.Sprintf("the %stoken %s, which %s", of, TokenDigest(c, holder.token), ends))
	}
	add(len(all)-splitShown, "token is", "tokens are", "left out here")
	for _, kind := range h.strangers {
		add(1, "holds", "", "a "+kind+" that redlockd has not written: remove it there by hand")
	}
	add(h.silent, "has", "have", "not answered")
	return strings.Join(parts, "; ")
}

// releaseHoldersLocked launches the second round, and tells all clients.
func (c *Client) releaseHoldersLocked(f *force, r *round, v quorum.Votes, d *deferred) {
	holders := r.keyHolders()
	f.result.Fence, f.result.Masters, f.result.Gone = r.fence, r.view.Count, r.view.Count
	switch {
	case len(holders.all) > 0:
	case len(holders.strangers) >= r.view.Quorum():
		d.deliver(f.caller, Result{Err: badRequest("%q is a %s on the masters that redlockd has not written: nothing was released; remove it there by hand",
			f.resource, holders.strangers[0])})
		return
	case holders.possible:
		d.deliver(f.caller, Result{Err: r.noQuorumError(v, r.view.Quorum(), 0)})
		return
	case holders.free < r.view.Quorum(): //mutant:split-votes-are-told-as-nobody
		if !f.forcesSplitLocked(c, r, &holders, d) {
			return
		}
	default:
		f.result.Gone -= holders.silent
		d.deliver(f.caller, Result{Forced: &f.result})
		return
	}
	release := &forcedRelease{id: member.Nonce(), resource: f.resource}
	f.pending = len(holders.all)
	var leases []*lease
	for _, h := range holders.all {
		release.digests = append(release.digests, conn.Digest(h.token))
		f.result.Tokens = append(f.result.Tokens, TokenDigest(c, h.token))
		leases = append(leases, c.forgetForcedLocked(f.resource, h.token, d))
		force := &round{verb: verbForce, token: h.token, start: d.now, op: &f.op}
		switch force.setKeys(f.resource); {
		case madeHere(h.token) && f.split == nil:
			force.keepFor = c.fleet.view.Load().Masters
		case holders.found[h].ends != [MaxMasters]int64{}: // without a TTL it is no lock, and has nothing to compare
			force.verb, force.answers = verbForceCallers, make([]answer, MaxMasters)
			for i := range force.answers {
				force.answers[i].ends = holders.found[h].ends[i]
			}
		}
		c.rounds.launch(force.asReader(h.reader), quorum.All, d)
		if h.reader {
			holders.readers--
		}
	}
	f.result.digests, f.result.Readers = release.digests, max(0, holders.readers)
	c.rounds.publish(windowsChannel, release.text(), d) //mutant:a-forced-release-is-not-published
	c.forced.remember(release, d.now)
	release.applied, release.launched = true, c.rounds.launched //mutant:granted-by-the-client-that-has-forced
	for _, lease := range leases {
		c.waiting.handOverReleasedLocked([]string{f.resource}, lease, d)
	}
}

// forcesSplitLocked is for masters that hold different tokens, none of them so many that it could have a
// quorum. It returns true if these are to be released: they have been there for splitAfter. Else they are
// read again, or the caller is told what is there.
func (f *force) forcesSplitLocked(c *Client, r *round, h *keyHolders, d *deferred) bool {
	if f.split != nil && maps.EqualFunc(f.split, h.found, (*sighting).same) { //mutant:split-votes-are-forced-at-once
		h.all = slices.SortedFunc(maps.Keys(h.found), func(a, b keyHolder) int { return strings.Compare(a.token, b.token) })
		return true
	}
	f.split = h.found
	if f.splits++; f.splits == splitReadings || len(h.found) == 0 {
		d.deliver(f.caller, Result{Err: badRequest("%q is held by nobody, but free on only %d of %d masters: %s. Nothing was released, because clients are changing it: try again",
			f.resource, h.free, r.view.Count, h.split(c))})
		return false
	}
	f.raises = 0
	time.AfterFunc(c.opts.splitAfter(), func() {
		d := c.enter()
		defer c.leave(d)
		c.raiseLocked(f, d)
	})
	return false
}

// same tells whether the masters that hold it are the same, and its ends are.
func (s *sighting) same(other *sighting) bool {
	for i, ends := range s.ends {
		if apart := ends - other.ends[i]; apart < -endSlackMs || apart > endSlackMs { //mutant:a-split-that-was-renewed-is-forced
			return false
		}
	}
	return s.masters == other.masters
}

// forgetForcedLocked forgets what is known of a token that was released by force, and has the holder
// told.
func (c *Client) forgetForcedLocked(resource, token string, d *deferred) *lease {
	if b := c.holds.ofKey(resource, token); b != nil {
		c.holds.lost(b, "it was released by force (UNLOCK … FORCE)", d)
	}
	return c.leases.release([]string{resource}, token, d.now)
}

// forceDecided reports a forced release when every master has answered about every token, or failed to.
func (c *Client) forceDecided(r *round, _ quorum.Outcome, v quorum.Votes, d *deferred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, t := r.op.force, v.Tally(r.view.Places)
	removed, another, renewed := t.Of(quorum.Granted), t.Of(quorum.Denied), t.Of(quorum.Renewed)
	gone := removed + another + t.Of(quorum.Absent)
	f.pending--
	f.removed = f.removed || removed > 0
	f.result.Gone = min(f.result.Gone, gone)
	if f.split == nil { // else it is one of those that are released with it
		f.result.Another = max(f.result.Another, another)
	}
	f.result.Renewed = max(f.result.Renewed, renewed)
	switch {
	case gone >= r.view.Needed():
	case gone+renewed >= r.view.Needed():
		f.err = badRequest("%q was renewed meanwhile, and is still held on %d masters: look at it, and force it again if that is still right", f.resource, renewed)
	default:
		f.err = r.noQuorumError(v, r.view.Needed(), 0)
	}
	if f.pending > 0 {
		return
	}
	switch {
	case f.err != nil:
	case f.removed:
		c.stats.Forced++
	case f.result.Another >= r.view.Needed():
		f.err = badRequest("%q has changed hands meanwhile, and nothing was released: look at it, and force it again if that is still right", f.resource)
	}
	d.deliver(f.caller, Result{Held: f.removed, Forced: &f.result, Err: f.err})
}

// forcedElsewhereLocked acts on a master's message that tokens were released by force, once a quorum of
// masters has sent it.
func (c *Client) forcedElsewhereLocked(master int, text string, d *deferred) {
	f, ok := parseForced(text)
	if !ok {
		return
	}
	f = c.forced.remember(f, d.now)
	f.by = f.by.With(master)
	if f.applied || f.by.Count() < c.fleet.view.Load().Quorum() { //mutant:one-master-ends-a-lock
		return
	}
	f.applied, f.launched = true, c.rounds.launched
	tokens := c.leases.tokensOf(f.resource)
	if b := c.holds.byKey[heldKey{key: f.resource}]; b != nil && !slices.Contains(tokens, b.token) {
		tokens = append(tokens, b.token)
	}
	for _, token := range tokens {
		if !slices.Contains(f.digests, conn.Digest(token)) { //mutant:all-holders-are-forced
			continue
		}
		c.holds.log.Log(c.opts.Logger, slog.LevelInfo, d.now, "lock released by force through another redlockd", "resource", f.resource,
			"to_do", "nothing; that one's log says by whom")
		lease := c.forgetForcedLocked(f.resource, token, d)
		if madeHere(token) { // nobody can be granted it again
			c.rounds.drop([]string{f.resource}, token, quorum.All, lease == nil || lease.reader, d) //mutant:what-was-given-back-outlives-the-force
		}
		c.waiting.handOverReleasedLocked([]string{f.resource}, lease, d)
	}
}

// tokensOf are the tokens that hold the resource, as far as is known here.
func (s *leases) tokensOf(resource string) (tokens []string) {
	if e := s.entries[resource]; e != nil {
		if e.lease != nil {
			tokens = append(tokens, e.lease.token)
		}
		tokens = slices.AppendSeq(tokens, maps.Keys(e.readers))
	}
	return tokens
}

// ended tells whether the round grants nothing any more: it was launched before the token that it is to
// grant or to extend, or that it is to replace, was released by force.
func (fs *forcedReleases) ended(r *round, now time.Time) bool {
	fs.expire(now)
	for _, f := range fs.all {
		i := slices.Index(r.keys, f.resource)
		if !f.applied || i < 0 || launchedAfter(r.launched, f.launched) {
			continue
		}
		if slices.Contains(f.digests, conn.Digest(r.valueOf(i))) {
			return true
		}
		if r.commit != nil && r.commit.changes[i].rotates() && slices.Contains(f.digests, conn.Digest(r.commit.changes[i].Value)) {
			return true
		}
	}
	return false
}

// dropForcedLocked is for a commit that a forced release has ended: the values that it has put in the
// place of others go. They are not turned back, for what they have replaced was released.
func (c *Client) dropForcedLocked(r *round, d *deferred) {
	for i := range r.commit.changes {
		if ch := &r.commit.changes[i]; ch.rotates() && unique(ch.NewValue) {
			put := &round{verb: verbRelease, keys: r.keys[i : i+1], token: ch.NewValue, start: d.now}
			c.rounds.launch(put.asReader(true), quorum.All, d) //mutant:a-readers-new-token-outlives-the-force
		}
	}
	r.commit.seen = r.view.Masters // what comes late is behind the releases, and is not turned back either
}
