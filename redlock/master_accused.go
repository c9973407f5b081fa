package redlock

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Whose clock it is, when clocks are out of step, for the log, for MasterStatus.Reason, and for who would take a master's
// vote for all clients.

// clockViewLocked is for accusedOf.
func (l *lane) clockViewLocked() clockView {
	k := &l.guard.clock
	view := clockView{gained: k.gained, gain: k.gain, asked: k.asked, took: k.took}
	if !l.state.takesWork() {
		view.asked = -1
	}
	return view
}

// clockViews are what the lanes know, in their order.
func clockViews(lanes []*lane) []clockView {
	views := make([]clockView, len(lanes))
	for i, l := range lanes {
		l.mu.Lock()
		views[i] = l.clockViewLocked()
		l.mu.Unlock()
	}
	return views
}

// accusation is a master whose clock is out of step with a majority of clocks, ours among them.
type accusation struct {
	lane   *lane
	reason string
}

// accused are the masters whose clocks are wrong, as far as this client can prove it: see accusedOf. A client that is
// alone in its opinion accuses nobody.
func (c *Client) accused() (all []accusation) {
	lanes := c.view.Load().masters
	views := clockViews(lanes)
	for i, accused := range accusedOf(views) {
		if accused {
			all = append(all, accusation{lanes[i], fmt.Sprintf("its clock gained %v on this machine's and on a majority of all clocks", roughly(views[i].gain))})
		}
	}
	return all
}

// gainedBesideOthers are the lanes of masters whose clocks have gained, where another master's clock has not: so it was no pause of
// this machine. That is no proof of who is wrong, but who has not watched those clocks must not vouch for them.
func (c *Client) gainedBesideOthers() (all []*lane) {
	lanes := c.view.Load().masters
	views := clockViews(lanes)
	for i, v := range views {
		if v.gain == 0 {
			continue
		}
		for _, other := range views {
			if other.gain == 0 && other.asked > v.gained && other.took < v.gain { //mutant:a-pause-of-ours-is-noted-on-the-masters
				all = append(all, lanes[i])
				break
			}
		}
	}
	return all
}

// explainDoubt says in the reason of a gain whose clock it is, as far as the masters that were asked since tell.
func (l *lane) explainDoubt() {
	reason := ""
	for _, a := range l.client.accused() {
		if a.lane == l {
			reason = a.reason
		}
	}
	gained, lanes := 0, l.client.view.Load().masters
	for _, v := range clockViews(lanes) {
		if v.gain > 0 {
			gained++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.guard.clock
	switch {
	case k.gain == 0:
	case reason != "":
		k.reason = reason
	case 2*gained > len(lanes):
		k.reason = fmt.Sprintf("%s, as are those of %d of %d masters: if this machine was paused, nothing is to be done", outOfStep(k.gain), gained, len(lanes))
	}
}

// logDoubts writes a line for each doubt: after a gain once it is known whose clock it is, or a heartbeat later in any
// case. Masters that are not accused have one line for all. The watchdog calls it.
func (c *Client) logDoubts(now time.Time) {
	lanes := c.view.Load().masters
	gained, apart := false, false
	for _, l := range lanes {
		l.mu.Lock()
		k := &l.guard.clock
		gained = gained || !k.logged && k.gain > 0
		apart = apart || !k.logged && k.skew != 0 && now.Sub(l.since) > c.opts.Heartbeat // then the others are, too
		l.mu.Unlock()
	}
	if gained && !c.askedSinceGain(now) {
		return
	}
	if !gained && !apart {
		return
	}
	if gained {
		c.coordinator.poke() // to note it on the masters, and to accuse
	}
	accused := make(map[*lane]bool)
	for _, a := range c.accused() {
		accused[a.lane] = true
	}
	var outOfStep, apartFrom doubtLine
	for _, l := range lanes {
		l.explainDoubt()
		l.mu.Lock()
		k := &l.guard.clock
		gain, skew, reason, left := k.gain, k.skew, k.reason, k.until.Sub(now)
		fresh := !k.logged && (gain > 0 || skew != 0)
		k.logged = k.logged || fresh
		l.mu.Unlock()
		switch {
		case !fresh:
		case accused[l]:
			l.logEvent(slog.LevelWarn, "master doubted", "reason", reason, "for", left.Round(time.Millisecond),
				"to_do", "see that NTP slews that master's clock and does not step it; it votes again after that time")
		case gain > 0:
			outOfStep.add(l, gain, left)
		default:
			apartFrom.add(l, skew, left)
		}
	}
	outOfStep.log(c, "clocks out of step", "this machine's clock or a pause of it, or the clocks of these masters: no majority of clocks tells which",
		"nothing if this machine was paused or moved; else see that NTP slews clocks and does not step them; the masters vote again after that time")
	apartFrom.log(c, "clocks too far apart", "these masters' clocks and this machine's differ by more than clock_skew_max, and nobody has watched whether they stepped",
		"let NTP keep this machine's clock and the masters'; the masters vote here after that time in any case")
}

// askedSinceGain tells whether all masters that can be were asked for their time since the last gain, or a heartbeat has
// passed.
func (c *Client) askedSinceGain(now time.Time) bool {
	views := clockViews(c.view.Load().masters)
	var last time.Duration
	for _, v := range views {
		if v.gain > 0 {
			last = max(last, v.gained)
		}
	}
	for _, v := range views {
		if v.asked >= 0 && v.asked <= last && c.own.at(now)-last <= c.opts.Heartbeat {
			return false
		}
	}
	return true
}

// doubtLine is a line of the log about several masters.
type doubtLine struct {
	masters  []string
	by, left time.Duration // of the one for which it is most
}

func (d *doubtLine) add(l *lane, by, left time.Duration) {
	d.masters = append(d.masters, l.master.Addr)
	d.left = max(d.left, left)
	if by.Abs() > d.by.Abs() {
		d.by = by
	}
}

func (d *doubtLine) log(c *Client, event, reason, todo string) {
	if len(d.masters) > 0 {
		c.opts.Logger.Warn(event, "masters", strings.Join(d.masters, " "), "by", roughly(d.by), "for", d.left.Round(time.Millisecond), "reason", reason, "to_do", todo)
	}
}
