//go:build race

package redlock

// Under the race detector everything takes ten times as long.
const simSeedsDefault = 8
