// Package admin is what operators do to masters without a client: Bootstrap admits new ones without a
// wait, Refound begins a membership anew where no majority comes back, and ProbeAll says of each master
// whether it can vote, and what to do.
//
//	bootstrap.go    admits masters that have never voted, without a wait
//	refound.go      begins a membership with other masters, or without those that are silent
//	probe.go        what a master says of itself, and what is wrong with that
//	report.go       what is said of it
//	permission.go   the commands that its user must be allowed to run
//	standing.go     what it is in the membership
package admin
