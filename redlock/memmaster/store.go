package memmaster

import (
	"maps"
	"slices"
)

// store is the data of a master: keys, their values and their expiry. It knows nothing of connections;
// what changes is told to changed. Guarded by Master.mu.
type store struct {
	// entries is the database that the running command sees, which is db: 0, unless its client has
	// selected 1. other is the other one.
	entries, other map[string]*entry
	db             int
	// due holds the keys of both that expire, soonest first. An entry is in it exactly while its
	// expireAt is not 0.
	due minHeap[*entry]

	// now is the master's wall clock at the start of the running command, in milliseconds since the
	// Unix epoch. A script sees one time from its first line to its last.
	now int64

	// changed is called after every change of a key, also when it expires.
	changed func(key string)
}

// kind is the type of what a key holds.
type kind uint8

const (
	none kind = iota // the key is absent
	isString
	isHash
	isZset
)

// kindNames are those of TYPE.
var kindNames = [...]string{none: "none", isString: "string", isHash: "hash", isZset: "zset"}

// entry is one key.
type entry struct {
	key  string
	kind kind
	// expireAt is in milliseconds since the Unix epoch by the master's clock; 0 for never.
	expireAt int64
	// dueIndex is the entry's index in store.due; -1 when it never expires.
	dueIndex int
	// str, hash or zset is the value, by the kind.
	str  string
	hash map[string]string
	zset *zset
	// db is the database that the entry is in.
	db int
}

// absent is the entry of every absent key. It can be read as one of any kind, and is never changed.
var absent = &entry{zset: &zset{}}

func (e *entry) before(other *entry) bool { return e.expireAt < other.expireAt }
func (e *entry) heapIndexOf() *int        { return &e.dueIndex }

// reset forgets all keys without telling anybody: what a process that has not persisted them does.
func (s *store) reset() {
	s.entries, s.other = map[string]*entry{}, map[string]*entry{}
	s.due = minHeap[*entry]{}
}

// lookup returns the entry of a key, which is absent if it has expired.
func (s *store) lookup(key []byte) *entry {
	e := s.entries[string(key)]
	if e == nil {
		return absent
	}
	if s.expired(e) {
		s.remove(e)
		return absent
	}
	return e
}

// open returns the entry of a key that is to hold a value of this kind, empty at first. The expiry of
// an entry that was there stays: see persist. The caller fills in the value and calls touch.
func (s *store) open(key []byte, of kind) *entry {
	e := s.lookup(key)
	if e.kind == none {
		e = &entry{key: string(key), dueIndex: -1, db: s.db}
		s.entries[e.key] = e
	}
	if e.kind != of {
		e.kind, e.str, e.hash, e.zset = of, "", nil, nil
	}
	switch {
	case of == isHash && e.hash == nil:
		e.hash = map[string]string{}
	case of == isZset && e.zset == nil:
		e.zset = newZset()
	}
	return e
}

// setString gives a key a string value and takes its expiry away.
func (s *store) setString(key []byte, value string) *entry {
	e := s.open(key, isString)
	s.persist(e)
	e.str = value
	s.touch(e)
	return e
}

// remove deletes a key, of either database.
func (s *store) remove(e *entry) {
	s.persist(e)
	if e.db != s.db { // nobody is told, for those who track its name track the key of the other database
		delete(s.other, e.key)
		return
	}
	delete(s.entries, e.key)
	s.touch(e)
}

// touch reports a change. Every command that changes an entry calls it, once.
func (s *store) touch(e *entry) { s.changed(e.key) }

// removed reports that an entry has lost so many members or fields. A key without any is gone.
func (s *store) removed(e *entry, n int) {
	switch {
	case n == 0:
	case e.kind == isHash && len(e.hash) == 0, e.kind == isZset && len(e.zset.members) == 0:
		s.remove(e)
	default:
		s.touch(e)
	}
}

// flush removes every key of both databases.
func (s *store) flush() {
	old := s.entries
	s.reset()
	for _, key := range sortedKeys(old) {
		s.changed(key)
	}
}

// swap exchanges the contents of the databases. Every key of both has changed for those who track it.
func (s *store) swap() {
	s.entries, s.other = s.other, s.entries
	for _, entries := range []map[string]*entry{s.entries, s.other} {
		for _, key := range sortedKeys(entries) {
			entries[key].db = 1 - entries[key].db
			s.changed(key)
		}
	}
}

// selectOther has commands see the other database.
func (s *store) selectOther() { s.entries, s.other, s.db = s.other, s.entries, 1-s.db }

// keys lists the keys that have not expired, sorted, so that nothing depends on the order of a map.
func (s *store) keys() []string {
	return slices.DeleteFunc(sortedKeys(s.entries), func(key string) bool { return s.expired(s.entries[key]) })
}

// clone copies the data; of the copy only the data is set.
func (s *store) clone() store {
	var c store
	c.reset()
	for from, to := range map[*map[string]*entry]map[string]*entry{&s.entries: c.entries, &s.other: c.other} {
		for key, e := range *from {
			copied := *e
			copied.zset = e.zset.clone()
			copied.hash = maps.Clone(e.hash)
			to[key] = &copied
			if e.expireAt != 0 {
				c.due.push(&copied)
			}
		}
	}
	return c
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
