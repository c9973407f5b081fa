package redlock

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"strings"
)

// A value that changes while a lock is held, as a hash of several holders does, is kept as versions:
// each change of it makes a value of its own, which tells what it came of. So a master that has missed
// changes can be given the value that counts, in the place of one that is known to be over.
//
//	VersionMark   10 bytes
//	kind           1 byte   does not matter here
//	lineage        7 bytes  random, drawn where the key was absent
//	generation     2 bytes  big-endian, one more than that of the value that it replaces
//	               4 bytes  random: two changes of one value differ
//	               3 bytes  a sum of the value that it replaces
//
// The rest is the caller's.
//
// Invariant (Versions.tla): once a change of a value is made, no other value of the same lineage and of
// no higher generation ever counts again. Only these are replaced: a value of another lineage may be a
// later lock, and one of a higher generation a later version of this one.

// VersionMark begins the values that tell their version.
const VersionMark = "\x00redlockd:"

// VersionLen is how many bytes tell the version, behind VersionMark and a byte for the kind.
const VersionLen = 16

// Where lineage and generation are in a value.
const (
	lineageAt    = len(VersionMark) + 1
	generationAt = lineageAt + 7
	sumAt        = generationAt + 6
	versionEnd   = lineageAt + VersionLen
)

// NextVersion tells the version of a value that replaces was, which is a version, or "" where the key
// was absent. random is 16 random bytes, drawn for this value.
func NextVersion(random [VersionLen]byte, was string) (version [VersionLen]byte) {
	version = random
	generation := uint16(0)
	if isVersion(was) {
		// Behind the last generation begins another lineage.
		if last := binary.BigEndian.Uint16([]byte(was[generationAt:])); last < math.MaxUint16 {
			copy(version[:generationAt-lineageAt], was[lineageAt:])
			generation = last + 1
		}
	}
	binary.BigEndian.PutUint16(version[generationAt-lineageAt:], generation)
	if generation > 0 {
		copy(version[sumAt-lineageAt:], sumOf(was))
	}
	return version
}

// sumOf is what a version says of the value that it replaces.
func sumOf(was string) []byte {
	h := fnv.New32a()
	h.Write([]byte(was))
	return h.Sum(nil)[:versionEnd-sumAt]
}

// follows tells whether a version was made in the place of this value.
func follows(version, was string) bool {
	return isVersion(version) && isVersion(was) && version[lineageAt:generationAt] == was[lineageAt:generationAt] && //mutant:a-version-goes-by-its-generation-alone
		int(binary.BigEndian.Uint16([]byte(version[generationAt:]))) == int(binary.BigEndian.Uint16([]byte(was[generationAt:])))+1 &&
		version[sumAt:versionEnd] == string(sumOf(was))
}

// isVersion reports whether the value tells its version.
func isVersion(value string) bool {
	return len(value) >= versionEnd && strings.HasPrefix(value, VersionMark)
}
