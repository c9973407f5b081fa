package member

// The tables in testdata, in words: what masters show, clause by clause.

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
)

// tableOf are the lines of a table, with so many columns.
func tableOf(t *testing.T, name string, columns int) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) > columns {
			t.Fatalf("%s: %q has %d columns, want %d", name, line, len(cells), columns)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		lines = append(lines, append(cells, make([]string, columns-len(cells))...))
	}
	return lines
}

// scene is what a line says: a record of five voters, and what they show.
type scene struct {
	*testing.T
	line    string
	own     *Record
	records map[string]*Record // by the names that a table has for them
	*Situation
	over []string // the timers of waits that are over
}

// sceneOf begins with the record, as the clauses change it, which all show.
func sceneOf(t *testing.T, line []string, own *Record, clauses string, records map[string]*Record) *scene {
	c := &scene{T: t, line: strings.Join(line, " | "), own: own, records: records}
	for clause := range strings.SplitSeq(clauses, "; ") {
		c.own = c.own.Changed(func(r *Record) { c.change(r, clause) })
	}
	c.Situation = &Situation{Record: c.own, Survey: surveyOf(c.own), Drift: usualDrift, FirstCeiling: time.Minute, Paused: func(int) bool { return false },
		Left: func(timer string) time.Duration {
			if slices.ContainsFunc(c.over, func(suffix string) bool { return strings.HasSuffix(timer, suffix) }) {
				return 0
			}
			return 1
		}}
	return c
}

// change has the record be what the clause says.
func (c *scene) change(r *Record, clause string) {
	places, what := c.masters(clause)
	switch what {
	case "":
		return
	case "max_ttl 1s since 5":
		r.MaxTTL, r.Ceiling, r.Wait, r.TTLSince = time.Second, time.Second, 3*time.Second, 5
	case "wait as max_ttl needs":
		r.Wait = r.Needed(usualDrift)
	case "wait 8001ms":
		r.Wait = 8001 * ms
	}
	for _, i := range places {
		state, ok := map[string]SeatState{"learner": Learner, "leaving": Leaving, "vacant": Vacant}[what]
		if !ok {
			c.Fatalf("%s: nobody knows what %q means", c.line, what)
		}
		s := r.Seat(i)
		if s.State, s.Since = state, 6; !state.occupied() {
			s.Memory = ""
		}
	}
}

var masterName = regexp.MustCompile(`^(m[0-4]|all) ?`)

// masters reads the masters that a clause begins with.
func (c *scene) masters(clause string) (places []int, what string) {
	for what = clause; ; {
		name := masterName.FindString(what)
		if name == "" {
			return places, what
		}
		what = what[len(name):]
		if name = strings.TrimSpace(name); name == "all" {
			places = []int{0, 1, 2, 3, 4}
		} else {
			places = append(places, int(name[1]-'0'))
		}
	}
}

// record is the one of a name; "version n": own at another version.
func (c *scene) record(name string) *Record {
	version, is := strings.CutPrefix(name, "version ")
	n, err := strconv.ParseInt(version, 10, 64)
	switch r := c.records[name]; {
	case r != nil:
		return r
	case name == "own":
		return c.own
	case name == "another fleet":
		return c.own.Changed(func(r *Record) { r.Lineage = otherLineage })
	case is && err == nil:
		return c.own.Changed(func(r *Record) { r.Version = n })
	}
	c.Fatalf("%s: nobody knows the record %q", c.line, name)
	return nil
}

// show has the masters show what the clauses say.
func (c *scene) show(clauses string) {
	for clause := range strings.SplitSeq(clauses, "; ") {
		places, what := c.masters(clause)
		if since, ok := strings.CutPrefix(what, "max_ttl over since "); ok {
			c.over = append(c.over, ":ttl@"+since)
			continue
		}
		for _, i := range places {
			c.showOne(i, what)
		}
	}
}

func (c *scene) showOne(i int, what string) {
	s := c.Survey
	f := s.At(i)
	verb, rest, _ := strings.Cut(what, " ")
	switch {
	case what == "is well":
	case what == "silent":
		f.Err = errAway
	case what == "unasked":
		s.Reports = slices.DeleteFunc(s.Reports, func(f *Report) bool { return f.Place == i })
	case what == "refused":
		f.Err = &conn.RefusedError{Reason: "a replica"}
	case what == "fresh":
		f.shown(processMemory(i, 1), nil)
	case what == "forgot":
		f.shown(processMemory(i, 2), nil)
	case strings.HasPrefix(what, "forgot, at "):
		f.shown(processMemory(i, 2), c.record(strings.TrimPrefix(what, "forgot, at ")))
	case strings.HasPrefix(what, "forgot, was at "):
		f.shown(processMemory(i, 2), nil)
		f.Before = c.record(strings.TrimPrefix(what, "forgot, was at "))
	case what == "is another process":
		f.shown(fmt.Sprintf("new%d:%016x", i, 1), nil)
	case what == "has the memory of m3":
		f.shown(processMemory(3, 1), c.own)
	case verb == "at":
		f.shown(processMemory(i, 1), c.record(rest))
	case verb == "accepted":
		f.Child = c.record(rest)
		f.State.Child = f.Child.Digest
	case what == "has lost the text":
		f.Record = nil
	case what == "hear the m4 that is listed":
		c.Patience = time.Second
		f.Fields[HeardField(4)] = fmt.Sprint(s.Began.UnixMilli())
	case what == "pauses":
		c.Paused = func(place int) bool { return place == i }
	case strings.HasPrefix(what, "over since "):
		c.over = append(c.over, fmt.Sprintf(":%d@%s", i, strings.TrimPrefix(what, "over since ")))
	case what == "has the last fence that a clock may be behind":
		f.High = fence.Time(s.Began.Add(fence.AheadMax))
	case what == "has the fence after that":
		f.High = fence.Time(s.Began.Add(fence.AheadMax)) + 1
	default:
		c.Fatalf("%s: nobody knows what %q means", c.line, what)
	}
}
