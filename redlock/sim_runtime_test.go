//go:build !race

package redlock

// The runtime of Go in which a play of the simulation repeats to the byte. In a bubble of virtual time, on one processor, without the garbage
// collector, everything happens in one order, but for what Go leaves to chance or to the clock of the machine:
//
//   - which of several ready cases a select takes, which of several timers of one instant comes first, in which order a map is read, and the
//     functions of math/rand/v2: inside a bubble they draw from one source here, which begins with the process;
//   - the seeds of the maps that a process makes before;
//   - the children of a context are cancelled in the order of a map with their addresses, which depend on whatever else has allocated: here it is
//     the order in which they began;
//   - a goroutine is interrupted after 10 ms, others run while one is in a system call for 20 µs, a mutex whose waiter has waited for 1 ms is handed
//     over, and every 61st turn goes to another queue: never here. On several processors, as the mutants run, the first two happen as ever: real
//     processes are waited for in system calls.
//
// A test binary with these changes is made by `go test -overlay`. Each edits one line of Go's library.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// runtimeEdit puts a text in the place of one that occurs once in a file of Go's library.
type runtimeEdit struct{ file, old, new string }

const (
	// A wyrand, like that of the runtime.
	inBubble = `	if gp := mp.curg; gp != nil && gp.bubble != nil {
		bubbleRand += 0xa0761d6478bd642f
		hi, lo := math.Mul64(bubbleRand, bubbleRand^0xe7037ed1a0b428db)
		return hi ^ lo
	}
`
	randBegins      = "\tmp := getg().m\n\tc := &mp.chacha8\n"
	childrenInOrder = `func inOrder(children map[canceler]int, born int) (ordered []canceler) {
	all := make([]canceler, born+1)
	for child, n := range children {
		all[n] = child
	}
	for _, child := range all {
		if child != nil {
			ordered = append(ordered, child)
		}
	}
	return ordered
}

`
	processSeeded = "globalRand.state.Init(*seed)"
)

var runtimeEdits = []runtimeEdit{
	{"runtime/rand.go", randBegins, strings.Replace(randBegins, "\tc :=", inBubble+"\tc :=", 1)},
	{"runtime/rand.go", "func mrandinit(", "var bubbleRand uint64\n\nfunc mrandinit("},
	{"runtime/rand.go", processSeeded, "*seed = [32]byte{1}\n\t" + processSeeded},
	{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", "j := uint32(rand() % uint64(norder+1))"},
	{"runtime/time.go", "t.rand = cheaprand()", "t.rand = uint32(rand())"},
	{"runtime/proc.go", "func retake(now int64) uint32 {", "func retake(now int64) uint32 {\n\tif gomaxprocs == 1 {\n\t\treturn 0\n\t}"},
	{"runtime/proc.go", "pp.schedtick%61 == 0", "pp.schedtick%61 == 61"},
	{"context/context.go", "children map[canceler]struct{} // set", "born int\n\tchildren map[canceler]int // set"},
	{"context/context.go", "p.children = make(map[canceler]struct{})", "p.children = make(map[canceler]int)"},
	{"context/context.go", "p.children[child] = struct{}{}", "p.born++\n\t\t\tp.children[child] = p.born"},
	{"context/context.go", "for child := range c.children {", "for _, child := range inOrder(c.children, c.born) {"},
	{"context/context.go", "// A cancelCtx can be canceled.", childrenInOrder + "// A cancelCtx can be canceled."},
	{"internal/sync/mutex.go", "starvationThresholdNs = 1e6", "starvationThresholdNs = 1 << 60"},
}

// repeatableRuntime returns the changed files by their paths in Go's library. It fails for a Go in which a place is not found.
func repeatableRuntime() (files map[string]string, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	files = map[string]string{}
	for _, edit := range runtimeEdits {
		path := filepath.Join(strings.TrimSpace(string(root)), "src", filepath.FromSlash(edit.file))
		if files[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files[path] = string(text)
		}
		if n := strings.Count(files[path], edit.old); n != 1 {
			return nil, fmt.Errorf("%s of %s has %q %d times, want once: tell redlock/sim_runtime_test.go where that is now", edit.file, runtime.Version(), edit.old, n)
		}
		files[path] = strings.Replace(files[path], edit.old, edit.new, 1)
	}
	return files, nil
}

// writeOverlay writes files for `go build -overlay`, which stand in for those at their paths, and returns its argument.
func writeOverlay(dir string, files map[string]string) (argument string, err error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, content := range files {
		copied := filepath.Join(dir, fmt.Sprint(len(overlay.Replace)), filepath.Base(path))
		overlay.Replace[path] = copied
		err = errors.Join(err, os.MkdirAll(filepath.Dir(copied), 0o700), os.WriteFile(copied, []byte(content), 0o600))
	}
	text, _ := json.Marshal(overlay)
	argument = filepath.Join(dir, "overlay.json")
	return argument, errors.Join(err, os.WriteFile(argument, text, 0o600))
}

// repeatableBinary is the path of a test binary of this package in which a play repeats: this one, if it is such, or one that is made now and goes
// with the process. With an error it is this one, in which no play repeats: the runtime of this Go is not known.
var repeatableBinary = sync.OnceValues(func() (path string, err error) {
	if path, err = makeRepeatable(); err != nil {
		path, _ = os.Executable()
	}
	return path, err
})

func makeRepeatable() (path string, err error) {
	if repeatable != "" {
		return os.Executable()
	}
	files, err := repeatableRuntime()
	if err != nil {
		return "", err
	}
	if repeatableDir, err = os.MkdirTemp("", "redlock-simulation"); err != nil {
		return "", err
	}
	overlay, err := writeOverlay(repeatableDir, files)
	if err != nil {
		return "", err
	}
	path = filepath.Join(repeatableDir, "redlock.test")
	build := []string{"test", "-c", "-vet=off", "-overlay", overlay, "-ldflags", repeatableFlag, "-o", path}
	if coverFolder() != "" {
		cover, err := coverBuild()
		if err != nil {
			return "", err
		}
		build = append(build, cover...)
	}
	output, err := exec.Command("go", append(build, ".")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make the test binary in which a play repeats: %w\n%s", err, output)
	}
	return path, nil
}

// inRepeatable runs a test in the binary in which virtual time repeats, and reports what comes of it there. It says no in that binary itself, and for a Go
// whose runtime is not known: then the test has to run here.
func inRepeatable(t *testing.T) (ran bool) {
	t.Helper()
	if repeatable != "" {
		return false
	}
	binary, err := repeatableBinary()
	if err != nil {
		t.Logf("a failure here may not fail again: %v", err)
		return false
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^"+t.Name()+"$", "-test.timeout", "0", "-test.v")
	cmd.Env = append(os.Environ(), repeatableEnvironment...)
	output, err := cmd.CombinedOutput()
	if t.Logf("%s", output); err != nil {
		t.Error(err)
	}
	return true
}

// repeatableEnvironment is what a process needs besides the binary.
var repeatableEnvironment = []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG="}

// onProcessors is for tests in the binary that wait for real processes.
const onProcessors = "GOMAXPROCS=2"

// repeatableFlag tells the linker that the runtime is changed.
var repeatableFlag = "-X redlockd/redlock.repeatable=" + runtime.Version()

// repeatableDir has what repeatableBinary has made; empty: nothing.
var repeatableDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if repeatableDir != "" {
		os.RemoveAll(repeatableDir)
	}
	os.Exit(code)
}
