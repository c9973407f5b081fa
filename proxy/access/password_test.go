package access

import (
	"crypto/sha256"
	"strings"
	"testing"
)

// FuzzPassword: whatever is configured, exactly one password fits it, and a digest only if it has one
// of its two forms.
func FuzzPassword(f *testing.F) {
	for _, seed := range []string{"", "test", "#", "sha256:", "#" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("0", 64)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, password string) {
		sum, isDigest := digestOf(password)
		if isDigest != (sum == sumOf(password) && (strings.HasPrefix(password, "#") || strings.HasPrefix(password, hashPrefix))) {
			t.Errorf("%q: is a digest: %v", password, isDigest)
		}
		if isDigest != (sumOf(password) != sha256.Sum256([]byte(password))) {
			t.Errorf("%q: is a digest: %v, and is compared as the other", password, isDigest)
		}
	})
}

// What was meant for a digest and is none is refused, and not shown.
func TestDigestsThatAreNone(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for _, password := range []string{"sha256:", "sha256:" + digest[1:], "sha256:" + digest[1:] + "g", "sha256:test"} {
		err := (&User{Name: "u", Password: password}).validate()
		if err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") || strings.Contains(err.Error(), password[7:]) && len(password) > 7 {
			t.Errorf("%s: got error %v, want one about the digits, without the password", password, err)
		}
	}
}
