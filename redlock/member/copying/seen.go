package copying

import "hash/maphash"

// seenMax bounds the names that a copy remembers: 40 bytes each. Those beyond it are read for each source
// that has them.
const seenMax = 1 << 21

// seenNames are names of keys, so that none is read again because several sources have it.
type seenNames struct {
	hashes map[[2]uint64]struct{}
	seeds  [2]maphash.Seed
}

func newSeenNames() seenNames {
	return seenNames{make(map[[2]uint64]struct{}), [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// add remembers a name while there is room, and tells whether it was not there.
func (s *seenNames) add(name string) (added bool) {
	hash := s.hash(name)
	if _, seen := s.hashes[hash]; seen {
		return false
	}
	if len(s.hashes) < seenMax {
		s.hashes[hash] = struct{}{}
	}
	return true
}

func (s *seenNames) remove(name string) { delete(s.hashes, s.hash(name)) }

func (s *seenNames) hash(name string) [2]uint64 {
	return [2]uint64{maphash.String(s.seeds[0], name), maphash.String(s.seeds[1], name)}
}
