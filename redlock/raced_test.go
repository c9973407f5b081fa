//go:build race

package redlock

const (
	raced           = true
	simSeedsDefault = 3
)
