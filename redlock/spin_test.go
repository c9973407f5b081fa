package redlock

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The quarantine is what keeps a lock exclusive when a master restarts without its memory. Spin tries all orders of events in the
// model testdata/restart.pml: without the quarantine there must be one in which both clients hold the lock, with it none.
func TestQuarantineModel(t *testing.T) {
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is not installed, and the model cannot be checked without it: Debian's packages spin, gcc and libc6-dev have all that is needed", tool)
		}
	}
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
