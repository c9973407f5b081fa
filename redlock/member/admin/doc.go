// Package admin is what operators do to masters without a client: Bootstrap admits new ones without a
// wait, Refound begins a membership anew where no majority comes back, and ProbeAll says of each master
// whether it can vote, and what to mend.
package admin
