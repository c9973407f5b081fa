// Package member decides about the membership: which masters there are, which of them vote, and how long
// a lock may live. It is a record on the masters themselves, which a majority of them replaces step by
// step. Everything here is pure: no clock, no I/O. What masters have shown comes in, and what follows
// goes out.
//
//	record.go, text.go, state.go   the record, its text, and what a master shows of it
//	child.go, propose.go           what one step may change, and which child a proposer must take over
//	report.go                      what one master has shown, and a survey of all
//	adopt.go                       which record a client goes by
//	plan.go, waits.go              what the next record is, and when a wait is over
//	founding.go, silence.go        how a membership begins anew, and for whom that waits
//	note.go, minority.go           what a learner tells of the copy that it is given
//	membership.go                  all of it for people
//
// The rooms on top of it, from below:
//
//	member/survey        asks masters, and has them choose the next record
//	member/copying       gives a master that has forgotten what the others remember
//	member/coordinator   the goroutine of a client that does so when it is due, and what operators change
//	member/admin         what operators do without a client: bootstrap, refound, check
//
// The engine knows a Record, a State and a Trailer by what masters show with every batch, and has a
// coordinator.Coordinator for the rest.
package member
