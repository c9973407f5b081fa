//go:build race

package redlock

import "testing"

// TestSimulation plays a seed in this process, for the race detector. Nothing repeats here: sim_play_test.go.
func TestSimulation(t *testing.T) { simulate(t, 0) }
