package memmaster

import (
	"maps"
	"slices"
)

// store is the data of a master: keys, their values and their expiry. It knows nothing of connections; what changes is
// told to changed. Guarded by Master.mu.
type store struct {
	// entries is the database that the running command sees, which is db: 0, unless its client has selected 1. other is the other one.
	entries, other map[string]*entry
	db             int
	// due holds the keys of both that expire, soonest first. An entry is in it exactly while its expireAt is not 0.
	due minHeap[*entry]

	// now is the master's wall clock at the start of the running command, in milliseconds since the Unix epoch. A
	// script sees one time from its first line to its last.
	now int64

	// changed is called after every change of a key, also when it expires.
	changed func(key string)
}

// entry is one key, a string, a sorted set or a hash.
type entry struct {
	key string
	// expireAt is in milliseconds since the Unix epoch by the master's clock; 0 for never.
	expireAt int64
	// dueIndex is the entry's index in store.due; -1 when it never expires.
	dueIndex int
	// str is the value of a string.
	str string
	// zset is the value of a sorted set; nil for another type.
	zset *zset
	// hash is the value of a hash; nil for another type.
	hash hash
	// db is the database that the entry is in.
	db int
}

func (e *entry) isString() bool { return e.zset == nil && e.hash == nil }

func (e *entry) before(other *entry) bool { return e.expireAt < other.expireAt }
func (e *entry) heapIndexOf() *int        { return &e.dueIndex }

// reset forgets all keys without telling anybody: what a process that has not persisted them does.
func (s *store) reset() {
	s.entries, s.other = map[string]*entry{}, map[string]*entry{}
	s.due = minHeap[*entry]{}
}

// lookup returns the entry of a key, or nil if it is absent or has expired.
func (s *store) lookup(key []byte) *entry {
	e := s.entries[string(key)]
	if e != nil && s.expired(e) {
		s.remove(e)
		return nil
	}
	return e
}

// create returns the entry of a key for a new value, whatever it held. The expiry of an entry that was there stays: see
// persist. The caller fills in the value and calls touch.
func (s *store) create(key []byte) *entry {
	e := s.lookup(key)
	if e == nil {
		e = &entry{key: string(key), dueIndex: -1, db: s.db}
		s.entries[e.key] = e
	}
	e.str, e.zset, e.hash = "", nil, nil
	return e
}

// setString gives a key a string value and takes its expiry away.
func (s *store) setString(key []byte, value string) *entry {
	e := s.create(key)
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

// keys lists the keys that have not expired, sorted, so that nothing here depends on the order of a map.
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

func sortedKeys(entries map[string]*entry) []string {
	return slices.Sorted(maps.Keys(entries))
}
