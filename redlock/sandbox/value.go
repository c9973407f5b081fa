package sandbox

import "math"

// value is a value of Lua: nil, bool, float64, string, *table, *function or *userdata.
type value = any

// function is a function of Lua, with the variables around it that it uses, or one in Go.
type function struct {
	proto  *proto
	cells  []*cell
	native *native
}

// native is a function in Go. It works on the stack of c, and returns how many values on top are
// results.
type native struct {
	name string // for its errors
	run  func(c *call) int
}

// cell holds a local variable that closures have captured.
type cell struct{ v value }

// userdata is cjson.null, the only one there is.
type userdata struct{ _ byte }

// table is a table of Lua. Once read-only it is never changed, and can be used by many runs at a time.
//
// Invariant: no entry with a value has the key len(array)+1, as append moves such a one to the array.
// So #t needs to look at the array only.
type table struct {
	// array has the values of the keys 1, 2, …, len(array); nil where nothing is assigned. It never
	// becomes shorter, so that it need not pay for growing again.
	array []value
	// entries has all other keys, in the order in which they came.
	entries []entry
	// index has the places in entries, if there are more than indexedFrom.
	index map[value]int32
	meta  *table
	// readonly is only asked by those who call set.
	readonly bool
}

// entry is a key that was assigned to. It stays where it is when its value becomes nil, so that next
// can go on from it.
type entry struct{ key, value value }

// indexedFrom is how many entries are looked through one by one: faster than a map, and smaller.
const indexedFrom = 8

// arrayKey is a key as a place in an array, from 1; 0 if it can be none.
func arrayKey(key value) int {
	k, ok := key.(float64)
	if !ok || k < 1 || k > math.MaxInt32 || k != math.Trunc(k) {
		return 0
	}
	return int(k)
}

// get is t[key] without metatables.
func (t *table) get(key value) value {
	switch k := key.(type) {
	case string:
		return t.getString(k)
	case float64:
		if i := int(k); uint(i-1) < uint(len(t.array)) && float64(i) == k {
			return t.array[i-1]
		}
	}
	if i := t.find(key); i >= 0 {
		return t.entries[i].value
	}
	return nil
}

// at is t[i].
func (t *table) at(i int) value {
	if uint(i-1) < uint(len(t.array)) {
		return t.array[i-1]
	}
	return t.get(float64(i))
}

// getString is get without making a value of the string.
func (t *table) getString(key string) value {
	if t.index != nil {
		if i, ok := t.index[key]; ok {
			return t.entries[i].value
		}
		return nil
	}
	for i := range t.entries {
		if k, ok := t.entries[i].key.(string); ok && k == key {
			return t.entries[i].value
		}
	}
	return nil
}

// find is the place of a key among the entries, or -1.
func (t *table) find(key value) int {
	if t.index != nil {
		if i, ok := t.index[key]; ok {
			return int(i)
		}
		return -1
	}
	for i := range t.entries {
		if t.entries[i].key == key {
			return i
		}
	}
	return -1
}

// set is t[key] = v without metatables. The key must be neither nil nor NaN. The run pays for what the
// table grows by.
func (t *table) set(m *machine, key, v value) {
	i := arrayKey(key)
	switch {
	case 0 < i && i <= len(t.array):
		t.array[i-1] = v
		return
	case i == len(t.array)+1 && v != nil:
		t.append(m, v)
		return
	}
	if at := t.find(key); at >= 0 {
		t.entries[at].value = v
		return
	}
	if v == nil {
		return
	}
	if n := len(t.entries); n == cap(t.entries) {
		t.reserve(m, 0, max(2*n, 4))
	}
	t.entries = append(t.entries, entry{key, v})
	switch {
	case t.index != nil:
		m.charge(indexBytes)
		t.index[key] = int32(len(t.entries) - 1)
	case len(t.entries) > indexedFrom:
		m.charge(2 * indexedFrom * indexBytes)
		t.index = make(map[value]int32, 2*indexedFrom)
		for i := range t.entries {
			t.index[t.entries[i].key] = int32(i)
		}
	}
}

// append is t[len(array)+1] = v. Keys behind it that came before it move from the entries to the array.
func (t *table) append(m *machine, v value) {
	for ; v != nil; v = t.takeEntry(len(t.array) + 1) {
		if n := len(t.array); n == cap(t.array) {
			t.reserve(m, max(2*n, 4), 0)
		}
		t.array = append(t.array, v)
	}
}

// takeEntry removes the entry of a key that the array has room for, and returns its value.
func (t *table) takeEntry(key int) (v value) {
	if len(t.entries) == 0 {
		return nil
	}
	if at := t.find(float64(key)); at >= 0 {
		v, t.entries[at].value = t.entries[at].value, nil
	}
	return v
}

// reserve makes room for so many elements and other entries, and has the run pay for it.
func (t *table) reserve(m *machine, elements, entries int) {
	m.charge(elements*slotBytes + entries*entryBytes)
	if elements > cap(t.array) {
		t.array = append(make([]value, 0, elements), t.array...)
	}
	if entries > cap(t.entries) {
		t.entries = append(make([]entry, 0, entries), t.entries...)
	}
}

// setString sets a field of a library while it is made, which no run pays for.
func (t *table) setString(key string, v value) { t.entries = append(t.entries, entry{key, v}) }

// freeze ends the making of a library.
func (t *table) freeze() *table {
	t.readonly = true
	t.index = make(map[value]int32, len(t.entries))
	for i := range t.entries {
		t.index[t.entries[i].key] = int32(i)
	}
	return t
}

// length is #t: a key with a value before one without, found as C Lua finds it.
func (t *table) length() int {
	i, j := 0, len(t.array)
	if j == 0 || t.array[j-1] != nil {
		return j
	}
	for j-i > 1 {
		if middle := (i + j) / 2; t.array[middle-1] == nil {
			j = middle
		} else {
			i = middle
		}
	}
	return i
}

// next is what comes behind a key; behind nil comes the first, and behind the last comes nil. It is not
// ok if the key never was one.
func (t *table) next(key value) (k, v value, ok bool) {
	i := 0
	if key != nil {
		if i = arrayKey(key); i == 0 || i > len(t.array) {
			at := t.find(key)
			if at < 0 {
				return nil, nil, false
			}
			i = len(t.array) + at + 1
		}
	}
	for ; i < len(t.array); i++ {
		if v := t.array[i]; v != nil {
			return float64(i + 1), v, true
		}
	}
	for i -= len(t.array); i < len(t.entries); i++ {
		if e := &t.entries[i]; e.value != nil {
			return e.key, e.value, true
		}
	}
	return nil, nil, true
}

// truthy tells what counts as true: all but nil and false.
func truthy(v value) bool {
	b, isBool := v.(bool)
	return v != nil && (!isBool || b)
}

// typeName is what type() answers.
func typeName(v value) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case *table:
		return "table"
	case *function:
		return "function"
	}
	return "userdata"
}
