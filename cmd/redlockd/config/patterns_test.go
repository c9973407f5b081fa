package config

// Goal: a list of patterns can also be true or false, and is printed as it can be read. Method: a table.

import (
	"slices"
	"testing"
)

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		text string // as the file has it
		want []string
		back string // as it is printed
	}{
		{"false", nil, "false"},
		{"true", []string{"*"}, "true"},
		{`["latch:*", "job"]`, []string{"latch:*", "job"}, `["latch:*", "job"]`},
		{`["*"]`, []string{"*"}, "true"},
		{"[]", nil, "false"},
	} {
		c, err := loadText(t, "[compat]\nallow_unguarded = "+test.text+"\n", nil)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got, back := c.Front.AllowUnguarded, c.Find("compat.allow_unguarded").Text(); !slices.Equal(got, test.want) || back != test.back {
			t.Errorf("%s: got %q, printed as %s, want %q and %s", test.text, got, back, test.want, test.back)
		}
	}
	for text, want := range map[string][]string{"true": {"*"}, "0": nil, "latch:*, job": {"latch:*", "job"}} {
		c, err := Load(nil, []string{"REDLOCKD_COMPAT_ALLOW_UNGUARDED=" + text})
		if err != nil || !slices.Equal(c.Front.AllowUnguarded, want) {
			t.Errorf("REDLOCKD_COMPAT_ALLOW_UNGUARDED=%s: got %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"1":        "config.toml:2: compat.allow_unguarded: true, false or a list of patterns is needed, not a bare number",
		`"latch"`:  "config.toml:2: compat.allow_unguarded: true, false or a list of patterns is needed, not a string",
		`["a", 1]`: "config.toml:2: compat.allow_unguarded[1]: a string (in quotes) is needed, not a bare number",
	} {
		if _, err := loadText(t, "[compat]\nallow_unguarded = "+text+"\n", nil); err == nil || messages(err) != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
