//go:build race

package redlock

import (
	"math/rand/v2"
	"testing"
)

const raced = true

// TestSimulation plays seeds in this process, for the race detector. Nothing repeats here: sim_play_test.go.
func TestSimulation(t *testing.T) {
	for range 3 {
		simulate(t, rand.Uint64N(simSeedMax))
	}
}
