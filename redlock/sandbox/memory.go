package sandbox

import (
	"fmt"
	"math/bits"
)

// What a run allocates, in bytes. It is counted before it is allocated, and not given back when it is
// dropped, so that it bounds what can be alive. Each number is at least what Go takes;
// TestMemoryIsCounted compares.
//
// Not counted: a number takes 8 bytes and the header of a string 16, wherever an expression computes
// one. Instructions bound them: each makes one at most.
const (
	slotBytes    = 16  // a value in an array, on the stack or in a local variable
	entryBytes   = 32  // a key and its value
	indexBytes   = 128 // the place of a key in the map of a table that has one
	tableBytes   = 96  // without elements and entries
	closureBytes = 96
	cellBytes    = 32  // a captured variable, and its place in a closure
	errorBytes   = 512 // an error that pcall returns
	stringBytes  = 16  // beside its bytes
	parseBytes   = 4   // for each byte of a string that is read as a number
	replyBytes   = 96  // one element of a reply
	levelBytes   = 400 // of Go's stack, for an expression or a block within another
)

// charge counts bytes before they are allocated.
func (m *machine) charge(n int) {
	if m.bytes -= n; m.bytes < m.lookAtBytes {
		m.checkBytes()
	}
}

// lookEveryBytes is after how many bytes the clock is looked at. Making them takes some 20 µs.
const lookEveryBytes = 64 << 10

// checkBytes ends the run if it has met its limit of bytes or time.
func (m *machine) checkBytes() {
	if m.bytes < 0 {
		m.end(&LimitError{fmt.Sprintf("script stopped: it would need more than %d bytes of memory", m.limits.Bytes)})
	}
	m.checkTime()
	m.lookAtBytes = max(m.bytes-lookEveryBytes, 0)
}

// push puts a value on the stack.
func (m *machine) push(v value) {
	if len(m.stack) == cap(m.stack) {
		m.growStack(1)
	}
	m.stack = append(m.stack, v)
}

// pushAll puts several values on the stack.
func (m *machine) pushAll(list []value) {
	if len(list) > cap(m.stack)-len(m.stack) {
		m.growStack(len(list))
	}
	m.stack = append(m.stack, list...)
}

// growStack makes room for n more values, in powers of two. What a kept machine has room for is free,
// so that a run costs the same in a new machine and in a kept one.
func (m *machine) growStack(n int) {
	size := 1 << bits.Len(uint(max(len(m.stack)+n, stackMin)-1))
	if size > keptMax {
		m.charge(size * slotBytes)
	}
	m.stack = append(make([]value, 0, size), m.stack...)
}

// stackMin is how many values the first stack of a machine has room for.
const stackMin = 32

// many counts values that are copied to the stack.
func (m *machine) many(n int) {
	if n > argumentsFree {
		m.charge(n * slotBytes)
		m.step(n / 16)
	}
}

// table makes a table for the script with room for so many elements and entries.
func (m *machine) table(elements, entries int) *table {
	m.charge(tableBytes)
	t := &table{}
	if elements+entries > 0 {
		t.reserve(m, elements, entries)
	}
	return t
}
