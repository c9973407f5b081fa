package redlock_test

// Goal: what fencing.md says a resource must do with a fence holds back a holder that paused and lost its lock, at a database, at a
// Redis and at an object store. Method: the very statements of fencing.md, taken from its text, run against sqlite3, a real
// redis-server and an HTTP server with ETags; two holders of one lock, of which the first wakes up late.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

// fencingBlock is the only block of code in this language in fencing.md. README shows the statement of the one for SQL, too.
func fencingBlock(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 1 {
		t.Fatalf("fencing.md: got %d blocks of %s, want one", len(blocks), language)
	}
	if statement := regexp.MustCompile(`UPDATE .*:fence`).FindString(blocks[0][1]); language == "sql" && !strings.Contains(string(readme), "`"+statement+"`") {
		t.Errorf("README does not show %q, as fencing.md does", statement)
	}
	return blocks[0][1]
}

// twoHolders locks the same resource twice, the second time after the first holder has slept through the end of its lock. It is done in
// virtual time: the lock ends by itself, and no pause of this machine comes between.
func twoHolders(t *testing.T) (paused, present int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, end := open()
		defer end()
		lock := func() *redlock.Lease {
			lease, err := client.Acquire(t.Context(), redlock.LockRequest{
				Resources: []string{"account"}, TTL: time.Second, Wait: 10 * time.Second, Fence: true})
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
		first := lock()
		second := lock() // granted when the first has ended by itself
		if first.Validity() > 0 {
			t.Fatalf("the second holder has the lock %v before the end of the first", first.Validity())
		}
		paused, present = first.Fence, second.Fence
	})
	return paused, present
}

// checkWrites has both holders write. A write tells whether the resource took it.
func checkWrites(t *testing.T, write func(value string, fence int64) bool, read func() string) {
	t.Helper()
	paused, present := twoHolders(t)
	for _, w := range []struct {
		who   string
		fence int64
		value string
		want  bool
		then  string
	}{
		{"the present holder", present, "20", true, "20"},
		{"the holder that paused", paused, "10", false, "20"},
		{"the present holder again", present, "30", true, "30"},
		{"the holder that paused, again", paused, "10", false, "30"},
	} {
		if got := write(w.value, w.fence); got != w.want {
			t.Errorf("%s (fence %d) writes: got %v, want %v", w.who, w.fence, got, w.want)
		}
		if got := read(); got != w.then {
			t.Errorf("after the write of %s: got the value %s, want %s", w.who, got, w.then)
		}
	}
}

func TestFenceAtADatabase(t *testing.T) {
	redisproc.Need(t, "sqlite3")
	statement := fencingBlock(t, "sql")
	path := filepath.Join(t.TempDir(), "accounts.db")
	run := func(lines ...string) string {
		t.Helper()
		sqlite := exec.Command("sqlite3", "-batch", "-bail", path)
		sqlite.Stdin = strings.NewReader(strings.Join(lines, "\n"))
		out, err := sqlite.CombinedOutput()
		if err != nil {
			t.Fatalf("sqlite3: %v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER, fence INTEGER);", "INSERT INTO accounts VALUES ('7', 0, 0), ('8', 0, 0);")
	write := func(value string, fence int64) bool {
		changed := run(".parameter set :id 7", ".parameter set :balance "+value, fmt.Sprint(".parameter set :fence ", fence), statement, "SELECT changes();")
		if changed != "0" && changed != "1" {
			t.Fatalf("rows changed: got %s, want at most one", changed)
		}
		return changed == "1"
	}
	checkWrites(t, write, func() string { return run("SELECT balance FROM accounts WHERE id = '7';") })
}

func TestFenceAtARedis(t *testing.T) {
	server := redisproc.StartForTest(t, 1)[0]
	client := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true})
	defer client.Close()
	script := redis.NewScript(fencingBlock(t, "lua"))
	write := func(value string, fence int64) bool {
		n, err := script.Run(t.Context(), client, []string{"account:7", "account:7:fence"}, value, fence).Int()
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	}
	checkWrites(t, write, func() string { return client.Get(context.Background(), "account:7").Val() })
}

func TestFenceAtAnObjectStore(t *testing.T) {
	store := &objectStore{objects: map[string]object{"/accounts/7": {"0", "0", 1}}}
	server := httptest.NewServer(store)
	defer server.Close()
	o := objectClient{TB: t, base: server.URL, requests: strings.SplitN(fencingBlock(t, "http"), "\n\n", 2)}
	write := func(value string, fence int64) bool {
		for {
			etag, seen := o.look()
			if seen > fence {
				return false
			}
			if o.put(etag, fence, value) {
				return true
			}
		}
	}
	checkWrites(t, write, func() string { return store.value("/accounts/7") })

	// The holder that paused has looked before it paused: what it read was true then.
	etag, seen := o.look()
	if seen == 0 {
		t.Error("the object's metadata: got no fence, want that of the last write")
	}
	if !o.put(etag, seen+1, "40") {
		t.Error("the present holder writes: got a refusal")
	}
	if o.put(etag, seen, "10") {
		t.Error("the holder that paused between look and write: got it written, want 412")
	}
	if got := store.value("/accounts/7"); got != "40" {
		t.Errorf("got the value %s, want 40", got)
	}
}

// objectClient sends fencing.md's requests, with the words in braces filled in.
type objectClient struct {
	testing.TB
	base     string
	requests []string // HEAD, PUT
}

func (o objectClient) send(request string, words ...string) *http.Response {
	o.Helper()
	text := strings.NewReplacer(words...).Replace(request)
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	req, err := http.NewRequestWithContext(o.Context(), method, o.base+path, strings.NewReader(body))
	if err != nil {
		o.Fatal(err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

func (o objectClient) look() (etag string, fence int64) {
	o.Helper()
	resp := o.send(o.requests[0])
	if resp.StatusCode != http.StatusOK {
		o.Fatalf("%s: got %s", o.requests[0], resp.Status)
	}
	fence, err := strconv.ParseInt(resp.Header.Get("x-amz-meta-fence"), 10, 64)
	if err != nil {
		o.Fatal(err)
	}
	return resp.Header.Get("ETag"), fence
}

// put tells whether the object was written.
func (o objectClient) put(etag string, fence int64, value string) bool {
	o.Helper()
	resp := o.send(o.requests[1], "{etag}", etag, "{fence}", fmt.Sprint(fence), "{value}", value)
	switch resp.StatusCode {
	case http.StatusOK:
		return true
	case http.StatusPreconditionFailed:
		return false
	}
	o.Fatalf("PUT: got %s", resp.Status)
	return false
}

// objectStore does with If-Match what object stores do: it writes if the version is still the one that is named.
type objectStore struct {
	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	value, fence string
	version      int
}

func (o object) etag() string { return fmt.Sprintf(`"v%d"`, o.version) }

func (s *objectStore) value(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path].value
}

func (s *objectStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := io.Copy(&body, io.LimitReader(r.Body, 1<<20)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.objects[r.URL.Path]
	switch match := r.Header.Get("If-Match"); {
	case !found:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodPut && match != "" && match != o.etag():
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	case r.Method == http.MethodPut:
		o = object{body.String(), r.Header.Get("x-amz-meta-fence"), o.version + 1}
		s.objects[r.URL.Path] = o
	}
	w.Header().Set("ETag", o.etag())
	w.Header().Set("x-amz-meta-fence", o.fence)
}
