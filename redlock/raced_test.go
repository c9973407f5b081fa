//go:build race

package redlock

// Under the race detector everything takes ten times as long. So it sees some cases of the long tests, and the tests that compile or check
// something else than this binary (mutants, models) are left to the build without it. ENGINE and RELEASE in the Makefile name these tests.

const simSeedsDefault = 3

// some are the cases that the race detector sees of a long test: the first n.
func some[T any](n int, all []T) []T { return all[:n] }
