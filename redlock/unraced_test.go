//go:build !race

package redlock

const (
	raced           = false
	simSeedsDefault = 8
)
