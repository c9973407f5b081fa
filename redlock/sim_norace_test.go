//go:build !race

package redlock

const simSeedsDefault = 60
