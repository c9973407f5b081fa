package redlock

import (
	"time"

	"redlockd/redlock/quorum"
)

// deferred is the work that one entry into the engine leaves to do once Client.mu is free. It
// belongs to one goroutine. A lane keeps one for all its batches.
//
// Invariant: votes and results wait for Client.mu to be free, because both may launch rounds, which
// needs it.
type deferred struct {
	now         time.Time    // when the entry began, or when the replies to a batch were read
	looked      bool         // clock.Own.Look was called since
	abstentions []abstention // votes to count
	results     []delivery   // to hand to their Completers
	ended       []*binding   // whose owners are to be told
	flush       []Flusher    // what these return
}

// abstention is a round that some lanes would not take.
type abstention struct {
	round   *round
	masters quorum.Mask // that abstain
}

// delivery is the result of an operation on its way to the operation's Completer.
type delivery struct {
	op     *Op
	result Result
}

// deliver has the operation's Completer called with the result.
func (d *deferred) deliver(op *Op, result Result) {
	d.results = append(d.results, delivery{op, result})
}

// runDeferred does what was deferred, until nothing is left. It must be called without Client.mu.
func (c *Client) runDeferred(d *deferred) {
	for len(d.abstentions) > 0 || len(d.results) > 0 || len(d.ended) > 0 {
		for len(d.abstentions) > 0 {
			last := len(d.abstentions) - 1
			r := d.abstentions[last]
			d.abstentions = d.abstentions[:last]
			var word quorum.Votes
			for i := range r.round.view.Places {
				if r.masters.Has(i) {
					word += quorum.Cast(i, quorum.Abstained)
				}
			}
			c.vote(r.round, word, d)
		}
		// Done may start operations, which run what they defer themselves: take the list away
		// first.
		results := d.results
		d.results = d.results[len(d.results):]
		for i := range results {
			if f := results[i].op.to.Done(results[i].op, results[i].result); f != nil {
				d.flush = append(d.flush, f)
			}
		}
		clear(results)
		if len(d.results) == 0 {
			d.results = results[:0]
		}
		if ended := d.ended; len(ended) > 0 {
			d.ended = nil
			c.reportEnded(ended, d)
		}
	}
	for _, f := range d.flush {
		f.Flush()
	}
	clear(d.flush)
	d.flush = d.flush[:0]
}
