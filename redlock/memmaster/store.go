package memmaster

import (
	"maps"
	"slices"
)

// databaseCount is the number of databases that SELECT reaches, Redis's default.
const databaseCount = 16

// store is the data of a master: keys, their values and their expiry. It knows nothing of connections; what changes is
// told to changed. Guarded by Master.mu.
type store struct {
	dbs [databaseCount]*database
	due minHeap[*entry] // the keys that expire, soonest first

	// now is the master's wall clock at the start of the running command, in milliseconds since the Unix epoch. A
	// script sees one time from its first line to its last.
	now int64

	// changed is called after every change of a key, also when it expires.
	changed func(db int, key string)
}

type database struct {
	index   int
	entries map[string]*entry
}

// entry is one key. Exactly one of the values is set: the one of its kind.
type entry struct {
	key      string
	db       *database
	expireAt int64 // milliseconds since the Unix epoch; 0 for never
	duePlace int   // in store.due; -1 when it never expires

	kind kind
	str  string
	hash *hash
	zset *zset
}

func (e *entry) before(other *entry) bool { return e.expireAt < other.expireAt }
func (e *entry) place() *int              { return &e.duePlace }

type kind byte

const (
	kindString kind = iota
	kindHash
	kindZset
)

func (k kind) String() string { return [...]string{"string", "hash", "zset"}[k] }

func (s *store) reset() {
	for i := range s.dbs {
		s.dbs[i] = &database{index: i, entries: map[string]*entry{}}
	}
	s.due = minHeap[*entry]{}
}

// lookup returns the entry of a key, or nil if it is absent or has expired.
func (s *store) lookup(db int, key []byte) *entry {
	e := s.dbs[db].entries[string(key)]
	if e != nil && s.expired(e) {
		s.remove(e)
		return nil
	}
	return e
}

// create returns the entry of a key for a new value of the given kind, whatever it held. The expiry of an entry that was
// there stays: see persist. The caller fills in the value and calls touch.
func (s *store) create(db int, key []byte, k kind) *entry {
	e := s.lookup(db, key)
	if e == nil {
		d := s.dbs[db]
		e = &entry{key: string(key), db: d, duePlace: -1}
		d.entries[e.key] = e
	}
	e.kind, e.str, e.hash, e.zset = k, "", nil, nil
	switch k {
	case kindHash:
		e.hash = newHash()
	case kindZset:
		e.zset = newZset()
	}
	return e
}

// setString gives a key a string value and takes its expiry away.
func (s *store) setString(db int, key []byte, value string) *entry {
	e := s.create(db, key, kindString)
	s.persist(e)
	e.str = value
	s.touch(e)
	return e
}

func (s *store) remove(e *entry) {
	s.persist(e)
	delete(e.db.entries, e.key)
	s.touch(e)
}

func (s *store) touch(e *entry) { s.changed(e.db.index, e.key) }

// flush removes every key of a database.
func (s *store) flush(db int) {
	d := s.dbs[db]
	old := d.entries
	d.entries = map[string]*entry{}
	for _, key := range sortedKeys(old) {
		s.persist(old[key])
		s.changed(db, key)
	}
}

func (s *store) swap(a, b int) {
	s.dbs[a], s.dbs[b] = s.dbs[b], s.dbs[a]
	s.dbs[a].index, s.dbs[b].index = a, b
	for _, d := range []*database{s.dbs[a], s.dbs[b]} {
		for _, key := range sortedKeys(d.entries) {
			s.changed(a, key)
			s.changed(b, key)
		}
	}
}

// keys lists the keys of a database that have not expired, sorted, so that nothing here depends on the order of a map.
func (s *store) keys(db int) []string {
	keys := sortedKeys(s.dbs[db].entries)
	return slices.DeleteFunc(keys, func(key string) bool { return s.expired(s.dbs[db].entries[key]) })
}

// clone copies the data; of the copy only the data is set.
func (s *store) clone() store {
	var c store
	c.reset()
	for i, d := range s.dbs {
		for key, e := range d.entries {
			copied := *e
			copied.db = c.dbs[i]
			copied.hash = e.hash.clone()
			copied.zset = e.zset.clone()
			c.dbs[i].entries[key] = &copied
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
