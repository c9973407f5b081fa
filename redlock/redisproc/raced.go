//go:build race

package redisproc

const raced = true
