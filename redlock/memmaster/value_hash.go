package memmaster

import (
	"cmp"
	"maps"
	"slices"
)

// hash is the value of HSET. It remembers in which order fields came, which is the order of HGETALL.
type hash struct {
	fields map[string]*hashField
	born   int // fields added so far
}

type hashField struct {
	name, value string
	order       int
}

func newHash() *hash { return &hash{fields: map[string]*hashField{}} }

// set reports whether the field is new.
func (h *hash) set(name []byte, value string) (added bool) {
	if f := h.fields[string(name)]; f != nil {
		f.value = value
		return false
	}
	f := &hashField{name: string(name), value: value, order: h.born}
	h.fields[f.name] = f
	h.born++
	return true
}

func (h *hash) get(name []byte) (value string, ok bool) {
	if f := h.fields[string(name)]; f != nil {
		return f.value, true
	}
	return "", false
}

func (h *hash) remove(name []byte) bool {
	_, ok := h.fields[string(name)]
	delete(h.fields, string(name))
	return ok
}

func (h *hash) all() []*hashField {
	return slices.SortedFunc(maps.Values(h.fields), func(a, b *hashField) int { return cmp.Compare(a.order, b.order) })
}

func (h *hash) clone() *hash {
	if h == nil {
		return nil
	}
	c := &hash{born: h.born, fields: make(map[string]*hashField, len(h.fields))}
	for name, f := range h.fields {
		copied := *f
		c.fields[name] = &copied
	}
	return c
}
