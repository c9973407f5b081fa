//go:build !race

package redlock

const simSeedsDefault = 60

// some are all cases of a long test: see raced_test.go.
func some[T any](_ int, all []T) []T { return all }
