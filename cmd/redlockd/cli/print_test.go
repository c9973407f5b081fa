package cli

// Goal: what info and the other commands print with --json is safe to look at. Method: names that clients could have chosen.

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Names that clients have chosen cannot change what a terminal shows, and tools read them as they are.
func TestJSONCanBePrinted(t *testing.T) {
	const name = "a\u009b2J\u202eb <ü>"
	var out bytes.Buffer
	if err := PrintJSON(&out, []string{name}); err != nil {
		t.Fatal(err)
	}
	if want := "[\n  \"a\\u009b2J\\u202eb <ü>\"\n]\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	var back []string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back[0] != name {
		t.Errorf("read again: got %q, %v, want %q", back, err, name)
	}
}
