// Package coordinator keeps the membership of a client: it finds out which record is in force, tells
// masters that do not know it, and brings about the steps that are due.
//
//	coordinator.go   the goroutine: poll, follow, propose, found
//	recover.go       which learners are copied to, and when that makes them voters
//	change.go        what an operator asks for
//	problem.go       what an operator should know
//	host.go          what it needs of the engine
package coordinator
