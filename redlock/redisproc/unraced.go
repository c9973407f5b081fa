//go:build !race

package redisproc

const raced = false
