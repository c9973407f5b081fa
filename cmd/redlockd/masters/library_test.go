package masters

// Goal: the table of libraries is what libraries.md shows. Method: the document against the table.
// TestLinesForALibraryAreEnough tries the lines on a redlockd.

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/config"
	"redlockd/proxy"
)

// documentBlock is the library as libraries.md shows it; "" if it needs nothing.
func (l *libraryNeeds) documentBlock() string {
	c, special := config.Default(), l.client != ""
	text := fmt.Sprintf("### %s\n\n| use | needs | without it |\n|---|---|---|\n", l.name)
	for _, u := range l.uses {
		needs, without := "nothing", ""
		if lacks := u.lacks(c.Engine.MaxTTL, c.Front); len(lacks) > 0 {
			needs, without, special = "`"+strings.Join(lacks, "`<br>`")+"`", " "+u.without, true
		}
		if u.refused != "" {
			needs, without, special = "refused", " "+u.refused, true
		}
		text += fmt.Sprintf("| %s | %s |%s |\n", u.title(), needs, without)
	}
	if !special {
		return ""
	}
	if l.client != "" {
		text += fmt.Sprintf("\nAt the library: %s.\n", l.client)
	}
	return text
}

func TestLibrariesInTheDocument(t *testing.T) {
	file, err := os.ReadFile("../libraries.md")
	if err != nil {
		t.Fatal(err)
	}
	text, nothing := string(file), []string(nil)
	for i := range libraryTable {
		if row := "\n| " + libraryTable[i].name + " |"; !strings.Contains(text, row) {
			t.Errorf("libraries.md does not say which version of %s was tested: want a row %q", libraryTable[i].name, row)
		}
		block := libraryTable[i].documentBlock()
		if block == "" {
			nothing = append(nothing, libraryTable[i].name)
		} else if !strings.Contains(text, block) {
			t.Errorf("libraries.md does not have this block of libraryTable:\n%s", block)
		}
	}
	for line := range strings.Lines(text) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "### "); is && !slices.Contains(libraryNames(), name) {
			t.Errorf("libraries.md has the heading %q, which is no library of libraryTable", name)
		}
	}
	if sentence := "These need no settings: " + strings.Join(nothing, ", ") + "."; !strings.Contains(strings.Join(strings.Fields(text), " "), sentence) {
		t.Errorf("libraries.md does not say: %s", sentence)
	}
	_, section, _ := strings.Cut(text, "\n## Key prefixes\n")
	section, _, _ = strings.Cut(section, "\n#")
	for _, l := range libraryTable {
		for _, setting := range regexp.MustCompile("`[^`]+`").FindAllString(l.prefix, -1) {
			if !strings.Contains(section, setting) {
				t.Errorf("the section on key prefixes in libraries.md does not name %s, of %s", setting, l.name)
			}
		}
	}
	if !slices.IsSorted(libraryNames()) {
		t.Error("libraryTable is not in the order of the names")
	}
}

// A use says what breaks without its settings, or why none helps.
func TestLibraryNeedsAreInBounds(t *testing.T) {
	for i := range libraryTable {
		for _, u := range libraryTable[i].uses {
			needs := u.maxTTL > 0 || u.defaultTTL > 0 || len(u.unguarded) > 0
			if u.call == "" || needs != (u.without != "") || needs && u.refused != "" || u.maxTTL > 24*time.Hour {
				t.Errorf("%s: %+v: want needs with what happens without them, or neither", libraryTable[i].name, u)
			}
		}
	}
	if config.Default().Front.DefaultTTL != 0 || len(proxy.DefaultOptions().AllowUnguarded) != 0 {
		t.Error("the defaults are not those that libraryTable is about")
	}
}
