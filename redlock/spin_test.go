//go:build !race

package redlock

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// The quarantine is what keeps a lock exclusive when a master restarts without its memory. Spin tries all orders of events in the
// model testdata/restart.pml: without the quarantine there must be one in which both clients hold the lock, with it none.
func TestQuarantineModel(t *testing.T) {
	for _, tt := range []struct {
		name, macro, want string
	}{
		{"without quarantine", "-DNO_QUARANTINE", "assertion violated"},
		{"with quarantine", "-DQUARANTINE", "errors: 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := checkModel(t, "testdata/restart.pml", tt.macro)
			if !strings.Contains(report, tt.want) {
				t.Errorf("got %s\nwant %q in it", report, tt.want)
			}
			if tt.want == "errors: 0" && (strings.Contains(report, "not completed") || strings.Contains(report, "depth too small")) {
				t.Errorf("got %s\nwant all states looked at", report)
			}
		})
	}
}

// checkModel generates, builds and runs the verifier of a model, and returns its report.
func checkModel(t *testing.T, model, macro string) string {
	t.Helper()
	redisproc.Need(t, "spin", "gcc")
	model, err := filepath.Abs(model)
	if err != nil {
		t.Fatal(err)
	}
	var report []byte
	dir := t.TempDir()
	for _, step := range [][]string{
		{"spin", "-a", macro, model},
		{"gcc", "-O2", "-w", "-DSAFETY", "-o", "pan", "pan.c"},
		{"./pan", "-m100000", "-w20"},
	} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Dir = dir
		if report, err = cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(step, " "), err, report)
		}
	}
	return string(report)
}

// A caller may repeat its LOCK with its own token through another redlockd, and the first one takes its attempt back meanwhile. Spin tries
// all orders of events in the model testdata/undo.pml: there must be one with two holders where the undo does not look at the end of the
// key, or where those who count on a key do not move its end far enough; and none with the rules of op_undo.go.
func TestUndoModel(t *testing.T) {
	for _, tt := range []struct {
		name, macro, want string
	}{
		{"the undo is blind", "-DBLIND", "assertion violated"},
		{"ends are not moved", "-DMOVE=0", "assertion violated"},
		{"ends are moved as far as the undo may err", "-DMOVE=1", "assertion violated"},
		{"as it is", "-DMOVE=2", "errors: 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report := checkModel(t, "testdata/undo.pml", tt.macro)
			if !strings.Contains(report, tt.want) {
				t.Errorf("got %s\nwant %q in it", report, tt.want)
			}
			if tt.want == "errors: 0" && (strings.Contains(report, "not completed") || strings.Contains(report, "depth too small")) {
				t.Errorf("got %s\nwant all states looked at", report)
			}
		})
	}
}
