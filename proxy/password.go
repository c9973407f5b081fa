package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// passwordSum is the SHA-256 digest of a password. It is all that a login is compared with.
type passwordSum [sha256.Size]byte

// hashPrefix marks a password of which only the digest is given: sha256: and 64 hexadecimal digits.
const hashPrefix = "sha256:"

// sumOf is the digest of a configured password, which is the password itself, or its digest in one of
// two forms: sha256:digest, and #digest as Redis's ACL has it. What only begins like the second form is a password.
func sumOf(password string) passwordSum {
	if sum, ok := digestOf(password); ok {
		return sum
	}
	return sha256.Sum256([]byte(password))
}

// digestOf reads the two forms of a digest.
func digestOf(password string) (sum passwordSum, ok bool) {
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

// Hashed reports whether Password is a digest, with which nobody can log in.
func (u *User) Hashed() bool {
	_, hashed := digestOf(u.Password)
	return hashed
}
