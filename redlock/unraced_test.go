//go:build !race

package redlock

const raced = false
