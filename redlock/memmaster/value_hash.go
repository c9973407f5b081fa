package memmaster

import (
	"maps"
	"slices"
)

// hash is the value of HSET, field → value.
type hash map[string]string

// fields lists the names of the fields, sorted, so that nothing here depends on the order of a map.
func (h hash) fields() []string { return slices.Sorted(maps.Keys(h)) }
