package sandbox

import "fmt"

// What a run allocates, in bytes. It is counted before it is allocated, and not given back when it is
// dropped, so that it bounds what can be alive. Each number is at least what Go takes;
// TestMemoryIsCounted compares.
const (
	slotBytes    = 16  // a value in an array, on the stack or in a local variable
	entryBytes   = 32  // a key and its value
	indexBytes   = 128 // the place of a key in the map of a table that has one
	tableBytes   = 96  // without elements and entries
	closureBytes = 96
	cellBytes    = 32  // a captured variable, and its place in a closure
	errorBytes   = 512 // an error that pcall returns
	stringBytes  = 16  // beside its bytes
	replyBytes   = 96  // one element of a reply
	levelBytes   = 400 // of Go's stack, for an expression or a block within another
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
		m.step(n / 64)
	}
}

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
