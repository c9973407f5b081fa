package sandbox

import (
	"fmt"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// What a run allocates, in bytes. It is counted before it is allocated, and not given back when it is dropped, so that it bounds what
// can be alive. Each number is at least what gopher-lua takes; TestMemoryIsCounted compares.
const (
	slot         = 16                // a value in an array
	elementBytes = 3 * slot          // of an array that grows
	firstBytes   = 32 * slot         // an array has at first
	fieldBytes   = 256               // of a table that grows
	fieldsBytes  = 2500              // a table without has with the first
	tableBytes   = 192               // without elements and fields
	holderBytes  = tableBytes + 1000 // a table that is made for one field
	closureBytes = 192
	upvalueBytes = 96
	errorBytes   = 2048 // an error that pcall returns
	stringBytes  = 16   // beside its bytes
)

// charge counts bytes before they are allocated.
func (m *machine) charge(n int) {
	m.bytes -= n
	if m.bytes < 0 {
		m.end(&LimitError{fmt.Sprintf("script stopped: it would need more than %d bytes of memory", m.limits.Bytes)})
	}
}

// chargeString counts the making of a string of n bytes.
func (m *machine) chargeString(n int) {
	m.charge(n + stringBytes)
	if n >= 64 {
		m.work(n / 64)
	}
}

// many counts values that are copied: to the stack, and from there perhaps into a table.
func (m *machine) many(n int) {
	if n > tableFreeMax {
		m.charge(n * slot)
		m.work(n / 16)
		m.grown = m.grown || n > stackSize/2
	}
}

// table makes a table for the script with room for so many elements and fields.
func (m *machine) table(elements, fields int) *lua.LTable {
	m.charge(tableBytes + elements*slot + fields*fieldBytes)
	return m.lua.CreateTable(elements, fields)
}

// constructed is what a constructor allocates.
func constructed(elements, fields int, many bool) int {
	n := tableBytes + elements*slot*5/4 + fields*fieldBytes
	if fields > 0 {
		n += holderBytes
	}
	if many { // up to tableFreeMax values of a call, which are not counted
		n += firstBytes
	}
	return n
}

// grow counts what a table grows by when it gets a value for a key that it may not have.
func (m *machine) grow(t *lua.LTable, key, v lua.LValue) {
	if i := arrayIndex(key); i > 0 {
		if n := i - t.Len(); n > 0 {
			if n == i {
				m.charge(firstBytes)
			}
			m.charge(n * elementBytes)
			if n > 16 {
				m.work(n / 16)
			}
		}
		return
	}
	if v == lua.LNil || t.RawGet(key) != lua.LNil {
		return
	}
	m.charge(fieldBytes)
	if second, _ := t.Next(lua.LNumber(lua.MaxArrayIndex - 1)); second == lua.LNil { // no field, or perhaps one
		m.charge(fieldsBytes)
	}
}

// arrayIndex is the key as the index of an element that gopher-lua keeps in an array, or 0.
func arrayIndex(key lua.LValue) int {
	k, ok := key.(lua.LNumber)
	if !ok || k < 1 || k >= lua.LNumber(lua.MaxArrayIndex) || float64(k) != math.Trunc(float64(k)) {
		return 0
	}
	return int(k)
}
