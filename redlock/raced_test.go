//go:build race

package redlock

import "testing"

const raced = true

// TestSimulation plays seeds in this process, for the race detector. Nothing repeats here: sim_play_test.go.
func TestSimulation(t *testing.T) {
	for seed := range uint64(3) {
		simulate(t, seed)
	}
}
