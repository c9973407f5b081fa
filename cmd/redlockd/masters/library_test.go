package masters

// Goal: the table of libraries is what libraries.md shows. Method: the document against the table.
// TestLinesForALibraryAreEnough tries the lines on a redlockd.

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/config"
	"redlockd/proxy"
)

// documentRow is the library as libraries.md shows it.
func (l *libraryNeeds) documentRow() string {
	var settings []string
	for _, need := range l.settings {
		alone := libraryNeeds{settings: []libraryNeed{need}}
		for _, line := range alone.missing(config.Default()) {
			_, key, _ := strings.Cut(line.name, ".")
			settings = append(settings, fmt.Sprintf("`%s = %s`: %s", key, line.value, need.why))
		}
	}
	return strings.TrimRight(fmt.Sprintf("| %s | %s | %s", l.name, strings.Join(settings, "<br>"), l.client), " ") + " |"
}

func TestLibrariesInTheDocument(t *testing.T) {
	text, err := os.ReadFile("../libraries.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, nothing, got []string
	for i := range libraryTable {
		if l := &libraryTable[i]; len(l.settings) == 0 && l.client == "" {
			nothing = append(nothing, l.name)
		} else {
			want = append(want, l.documentRow())
		}
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| `--library`") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("libraries.md does not have the table of libraryTable, which is\n%s\n\ngot\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	if sentence := "These need no settings: " + strings.Join(nothing, ", ") + "."; !strings.Contains(strings.Join(strings.Fields(string(text)), " "), sentence) {
		t.Errorf("libraries.md does not say: %s", sentence)
	}
	if !slices.IsSortedFunc(libraryTable, func(a, b libraryNeeds) int { return strings.Compare(a.name, b.name) }) {
		t.Error("libraryTable is not in the order of the names")
	}
}

// The document's table says what each setting alone would be; together they must be in bounds.
func TestLibraryNeedsAreInBounds(t *testing.T) {
	for i := range libraryTable {
		for _, need := range libraryTable[i].settings {
			given := 0
			for _, is := range []bool{need.maxTTL > 0, need.defaultTTL > 0, len(need.unguarded) > 0} {
				if is {
					given++
				}
			}
			if given != 1 || need.why == "" || need.maxTTL > 0 && need.maxTTL <= config.Default().Engine.MaxTTL || need.maxTTL > 24*time.Hour {
				t.Errorf("%s: %+v: want one value, which the defaults do not allow, and its reason", libraryTable[i].name, need)
			}
		}
	}
	if config.Default().Front.DefaultTTL != 0 || len(proxy.DefaultOptions().AllowUnguarded) != 0 {
		t.Error("the defaults are not those that libraryTable is about")
	}
}
