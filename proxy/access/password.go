package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is the SHA-256 digest of a password. It is all that a login is compared with.
type Digest [sha256.Size]byte

// hashPrefix marks a password of which only the digest is given: sha256: and 64 hexadecimal digits.
const hashPrefix = "sha256:"

// sumOf is the digest of a configured password, which is the password itself, or its digest in one of
// two forms: sha256:digest, and #digest as Redis's ACL has it. What only begins like the second form is
// a password.
func sumOf(password string) Digest {
	if sum, ok := digestOf(password); ok {
		return sum
	}
	return sha256.Sum256([]byte(password))
}

// digestOf reads the two forms of a digest.
func digestOf(password string) (sum Digest, ok bool) {
	digits, marked := strings.CutPrefix(password, hashPrefix)
	if !marked {
		if digits, marked = strings.CutPrefix(password, "#"); !marked {
			return sum, false
		}
	}
	if len(digits) != hex.EncodedLen(len(sum)) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return sum, err == nil
}

// checkPassword refuses what was meant for a digest and is none: it would be a password that nobody
// knows. The error does not show it.
func checkPassword(password string) error {
	if _, ok := digestOf(password); !ok && strings.HasPrefix(password, hashPrefix) {
		return fmt.Errorf("behind %s, 64 hexadecimal digits are needed: printf %%s 'the password' | sha256sum", hashPrefix)
	}
	return nil
}

// Digests are the digests of the users' passwords.
func Digests(users []User) []Digest {
	all := make([]Digest, len(users))
	for i := range users {
		all[i] = sumOf(users[i].Password)
	}
	return all
}

// LogIn returns which of the users has this name and password, -1 if none has. digests are those of
// their passwords.
//
// Every user is compared to the end, so that the time tells neither which names exist nor how much of a
// password was right.
func LogIn(users []User, digests []Digest, name, password []byte) (found int) {
	found = -1
	sum := Digest(sha256.Sum256(password))
	for i := range users {
		if users[i].Password == "" {
			continue // it logs in by a certificate alone
		}
		if same(sha256.Sum256(name), sha256.Sum256([]byte(users[i].Name)))&same(sum, digests[i]) == 1 {
			found = i
		}
	}
	return found
}

// same is 1 if the two are equal, else 0, in a time that does not depend on them. It compares
// digests, because ConstantTimeCompare returns at once when the lengths differ.
func same(a, b Digest) int { return subtle.ConstantTimeCompare(a[:], b[:]) }

// Hashed reports whether Password is a digest, with which nobody can log in.
func (u *User) Hashed() bool {
	_, hashed := digestOf(u.Password)
	return hashed
}
