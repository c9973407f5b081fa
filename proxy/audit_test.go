package proxy

// Goal: the audit has what users did and what they were refused, in whole lines, and never slows a client. Method: dialogues; a writer that
// fails, and one that hangs.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock"
)

// auditOutput is where an audit is written to: it may fail, or hang.
type auditOutput struct {
	mu   sync.Mutex
	b    bytes.Buffer
	fail []int         // writes to fail, after one part in so many of the text; 0: after nothing
	hang chan struct{} // nil: it does not
}

func (o *auditOutput) Write(p []byte) (int, error) {
	if o.hang != nil {
		<-o.hang
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.fail) > 0 {
		n := 0
		if part := o.fail[0]; part > 0 {
			n, _ = o.b.Write(p[:len(p)/part])
		}
		o.fail = o.fail[1:]
		return n, errors.New("no space left on device")
	}
	return o.b.Write(p)
}

// wait waits for so many whole records, and returns the last one.
func (o *auditOutput) wait(t testing.TB, n int) (last auditRecord) {
	t.Helper()
	var lines []string
	eventually(t, "the audit has its records", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		lines = strings.Split(strings.TrimSuffix(o.b.String(), "\n"), "\n")
		return len(lines) >= n && strings.HasSuffix(o.b.String(), "\n")
	})
	if len(lines) != n {
		t.Fatalf("got %d records, want %d:\n%s", len(lines), n, strings.Join(lines, "\n"))
	}
	if err := json.Unmarshal([]byte(lines[n-1]), &last); err != nil {
		t.Fatalf("%q: %v", lines[n-1], err)
	}
	return last
}

func audited(out *auditOutput, locks bool) func(*Options) {
	return func(o *Options) { o.Audit, o.AuditLocks = out, locks }
}

func TestAudit(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		out := new(auditOutput)
		srv := serve(t, confine, audited(out, false))
		root, c := srv.dialAs("root"), srv.dial()
		n := 0
		want := func(user, command, outcome, errorPart string, resources, arguments string) auditRecord {
			t.Helper()
			n++
			r := out.wait(t, n)
			if r.User != user || r.Command != command || r.Outcome != outcome || !strings.Contains(r.Error, errorPart) ||
				strings.Join(r.Resources, " ") != resources || strings.Join(r.Arguments, " ") != arguments || r.Time == "" || r.Client == 0 || r.Addr == "" {
				t.Errorf("record %d: got %+v, want %s of %s: %s %s, resources %s, arguments %s", n, r, command, user, outcome, errorPart, resources, arguments)
			}
			return r
		}
		c.do("AUTH", "billing", "wrong").err("WRONGPASS")
		want("billing", "auth", "WRONGPASS", "", "", "")
		c.do("HELLO", "3", "AUTH", strings.Repeat("x", 100)+"\n", "wrong").err("WRONGPASS")
		want(strings.Repeat("x", failedLoginName), "hello", "WRONGPASS", "", "", "")
		c.do("HELLO", "2", "AUTH", "billing", "b", "SETNAME", "app").matches(`\[.*\]`)
		c.do("LOCK", "orders:1", "20000").err("NOPERM")
		if r := want("billing", "lock", "NOPERM", "'orders:1'", "orders:1", ""); r.Name != "app" {
			t.Errorf("got the name %q, want app", r.Name)
		}
		c.do("EVAL", "return redis.call('get', 'orders:1')", "0").err("NOPERM")
		want("billing", "eval", "NOPERM", "'orders:1'", "", "")
		c.do("CLIENT", "KILL", "ID", "1").err("NOPERM")
		want("billing", "client|kill", "NOPERM", "client|kill", "", "")
		c.do("UNLOCK", "billing:1", "FORCE", "me first").err("NOPERM")
		want("billing", "unlock", "NOPERM", "FORCE", "billing:1", "")
		root.do("CLIENT", "KILL", "ID", "4711").is(":0")
		want("root", "client|kill", "done", "", "", "ID 4711")
		root.do("CONFIG", "SET", "requirepass", "secret").err("ERR")
		want("root", "config|set", "ERR", "", "", "requirepass")
		root.do("CLIENT", "LIST")
		root.do("LOCK", "billing:1", "20000", "TOKEN", token).granted(1, 20000)
		root.do("UNLOCK", "billing:1", "FORCE", "stuck \"since\" noon").matches(`\["released" :1 .*`)
		r := want("root", "unlock", "released", "", "billing:1", "FORCE")
		if r.Reason != "stuck \"since\" noon" || len(r.Tokens) != 1 || r.Tokens[0] != redlock.TokenDigest(srv.opts.Engine, token) {
			t.Errorf("got %+v, want the reason and the digest", r)
		}
		// One connection cannot fill the disk with refusals.
		for range 10 * auditBurst {
			c.send("LOCK", "orders:1", "20000")
		}
		for range 10 * auditBurst {
			c.read().err("NOPERM")
		}
		root.do("SCRIPT", "FLUSH").is("+OK")
		eventually(t, "the flush is recorded", func() bool {
			out.mu.Lock()
			defer out.mu.Unlock()
			return strings.Contains(out.b.String(), `"script|flush"`)
		})
		out.mu.Lock()
		defer out.mu.Unlock()
		// In virtual time none of them comes later than another, so that no interval is over. The record of the flush comes on top.
		if got := strings.Count(out.b.String(), "\n") - n - 1; got > auditBurst || got < auditBurst-4 {
			t.Errorf("%d refusals at once: %d records, want %d and those before them", 10*auditBurst, got, auditBurst)
		}
		if strings.Contains(out.b.String(), "secret") || strings.Contains(out.b.String(), token) {
			t.Errorf("the audit has a secret: %s", out.b.String())
		}
	})
}

// What a client has chosen cannot change what a terminal shows of the file, and tools read it as it was.
func TestAuditCanBePrinted(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		out := new(auditOutput)
		c := serve(t, audited(out, true)).dial()
		const name = "a\u009b2J\u202eb\U000e0001c\x7fd ü 漢 😀"
		c.do("LOCK", name, "20000", "TOKEN", token).granted(1, 20000)
		if got := out.wait(t, 1).Resources; !slices.Equal(got, []string{name}) {
			t.Errorf("the resource: got %q, want %q", got, name)
		}
		out.mu.Lock()
		defer out.mu.Unlock()
		if want := `["a\u009b2J\u202eb\udb40\udc01c\u007fd ü 漢 😀"]`; !strings.Contains(out.b.String(), want) {
			t.Errorf("got %q, want %s in it", out.b.String(), want)
		}
	})
}

func TestAuditOfLocks(t *testing.T) {
	out := new(auditOutput)
	srv := serve(t, audited(out, true))
	c := srv.dial()
	digest := redlock.TokenDigest(srv.opts.Engine, token)
	for i, test := range []struct{ command, outcome, resources, digest string }{
		{"LOCK r 20000 TOKEN " + token, "granted", "r", digest},
		{"LOCK r 20000", "denied", "r", ""},
		{"EXTEND r " + token + " 20000", "extended", "r", digest},
		{"UNLOCK r other", "not held", "r", redlock.TokenDigest(srv.opts.Engine, "other")},
		{"HOLD r " + token + " 20000", "taken over", "r", "?"},
		{"MLOCK 2 a b 20000 TOKEN " + token, "granted", "a b", digest},
		{"MUNLOCK 2 a b " + token, "released", "a b", digest},
		{"LOCK jobs 20000 SLOTS 1 TOKEN " + token, "granted", "jobs#0", digest},
		{"LOCK r 1", "ERR", "r", ""},
		{"SET s " + token + " NX PX 20000", "granted", "s", digest},
		{"DELEX s IFEQ " + token, "changed", "s", ""},
		{"HSET h field 1", "ERR", "", ""},
	} {
		c.do(strings.Fields(test.command)...)
		if test.outcome == "ERR" && test.resources == "" {
			continue // nothing was changed
		}
		r := out.wait(t, i+1)
		tokens := strings.Join(r.Tokens, " ")
		if r.Outcome != test.outcome || strings.Join(r.Resources, " ") != test.resources || tokens != test.digest && test.digest != "?" {
			t.Errorf("%s: got %+v, want %s of %s, tokens %s", test.command, r, test.outcome, test.resources, test.digest)
		}
	}
}

// A disk that is full: whole lines, and what is dropped is counted.
func TestAuditOnAFullDisk(t *testing.T) {
	out := &auditOutput{fail: []int{2, 0}}
	srv := serve(t, audited(out, true))
	c := srv.dial()
	c.do("LOCK", "first", "20000")
	eventually(t, "the first write has failed", func() bool { _, dropped := srv.audit.counts(); return dropped == 1 })
	c.do("LOCK", "second", "20000")
	eventually(t, "the second one, too", func() bool { _, dropped := srv.audit.counts(); return dropped == 2 })
	c.do("LOCK", "third", "20000")
	eventually(t, "the third is written", func() bool { written, _ := srv.audit.counts(); return written == 1 })
	out.mu.Lock()
	defer out.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(out.b.String(), "\n"), "\n")
	var r auditRecord
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || r.Resources[0] != "third" {
		t.Errorf("the last line: got %q, %v, want the record of third", lines[len(lines)-1], err)
	}
	if got := c.info("stats")["audit_dropped"]; got != "2" {
		t.Errorf("INFO: got audit_dropped %s, want 2", got)
	}
}

// A disk that stays full for hours fills no log; and somebody who looks for the end of it finds that.
func TestAuditLogsOfAFullDiskBackOff(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var full atomic.Bool
		log := new(testLog)
		began := time.Now()
		var at []string // seconds since began, and what was logged then
		opts := slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.MessageKey {
				at = append(at, fmt.Sprint(time.Since(began).Truncate(time.Second).Seconds(), " ", a.Value))
			}
			return a
		}}
		a := newAudit(writer(func(b []byte) (int, error) {
			if full.Load() {
				return 0, syscall.ENOSPC
			}
			return len(b), nil
		}), true, slog.New(slog.NewTextHandler(log, &opts)))
		record := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				a.add(&auditRecord{Command: "lock"})
				synctest.Wait()
			}
		}
		full.Store(true)
		record(200 * time.Second)
		full.Store(false)
		record(10 * time.Second)
		full.Store(true) // again at once: nothing new
		record(10 * time.Second)
		full.Store(false)
		record(10 * time.Minute)
		full.Store(true)
		record(3 * time.Second)
		const dropped, again = "records of the audit are dropped", "records of the audit are written again"
		var want []string
		for _, second := range []int{0, 1, 3, 7, 15, 31, 63, 123, 183} {
			want = append(want, fmt.Sprint(second, " ", dropped))
		}
		want = append(want, "200 "+again, "820 "+dropped, "821 "+dropped)
		if !slices.Equal(at, want) {
			t.Errorf("got %q, want %q", at, want)
		}
		if !strings.Contains(log.String(), "dropped=2000\n") {
			t.Errorf("got %s, want how many were dropped", log)
		}
		a.close()
	})
}

// writer is an output by a function.
type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// A disk that hangs: memory is bounded, locks are granted, and the server ends.
func TestAuditOnADiskThatHangs(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		out := &auditOutput{hang: make(chan struct{})}
		srv := serve(t, audited(out, true))
		defer close(out.hang)
		c := srv.dial()
		s := &auditRecord{Command: "lock", Resources: []string{strings.Repeat("x", 1000)}}
		for range 2 * auditPendingMax / 1000 {
			srv.audit.add(s)
		}
		srv.audit.mu.Lock()
		pending := srv.audit.pending
		srv.audit.mu.Unlock()
		if _, dropped := srv.audit.counts(); dropped == 0 || pending > auditPendingMax {
			t.Errorf("%d dropped, %d bytes pending: want some, and at most %d", dropped, pending, auditPendingMax)
		}
		c.do("LOCK", "r", "20000", "TOKEN", token).granted(1, 20000)
		srv.Close()
	})
}

// What comes behind the end is dropped, and counted: nobody would write it.
func TestAuditBehindItsEnd(t *testing.T) {
	out := &auditOutput{}
	srv := serve(t, audited(out, false))
	srv.audit.close()
	srv.audit.add(&auditRecord{Command: "lock"})
	if written, dropped := srv.audit.counts(); written != 0 || dropped != 1 {
		t.Errorf("%d written, %d dropped: want the one record dropped", written, dropped)
	}
}

// closingOutput is an output that must not be written to once it is closed.
type closingOutput struct {
	auditOutput
	closed chan struct{}
}

func (o *closingOutput) Write(p []byte) (int, error) {
	select {
	case <-o.closed:
		return 0, errors.New("it is closed")
	default:
		return o.auditOutput.Write(p)
	}
}

func (o *closingOutput) Close() error { close(o.closed); return nil }

// Clients go on while the output changes: each record is in exactly one of the outputs, in order, and what was recorded before is in the one
// before.
func TestAuditChangesItsOutput(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const outputs, clients, each = 20, 4, 500
		a := newAudit(nil, false, slog.New(slog.DiscardHandler))
		var all []*closingOutput
		next := func() *closingOutput {
			o := &closingOutput{closed: make(chan struct{})}
			all = append(all, o)
			a.setOutput(o, true)
			return o
		}
		first := next()
		a.add(&auditRecord{Command: "before"})
		next()
		a.add(&auditRecord{Command: "after"})
		eventually(t, "the first output is closed", func() bool {
			select {
			case <-first.closed:
				return true
			default:
				return false
			}
		})
		if got := first.wait(t, 1); got.Command != "before" {
			t.Errorf("the first output: got %+v, want the record before the change", got)
		}
		var adding sync.WaitGroup
		for client := range int64(clients) {
			adding.Go(func() {
				for i := range int64(each) {
					a.add(&auditRecord{Client: client, More: i + 1})
				}
			})
		}
		for range outputs {
			next()
			runtime.Gosched()
		}
		adding.Wait()
		a.close()
		last := make([]int64, clients)
		n := 0
		for i, o := range all {
			select {
			case <-o.closed:
				if i == len(all)-1 {
					t.Errorf("output %d is closed, and is the one in use", i)
				}
			default:
				if i < len(all)-1 {
					t.Errorf("output %d is not closed", i)
				}
			}
			for line := range strings.Lines(o.b.String()) {
				var r auditRecord
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if n++; r.Command != "" {
					continue
				}
				if r.More != last[r.Client]+1 {
					t.Fatalf("output %d: client %d has record %d behind %d", i, r.Client, r.More, last[r.Client])
				}
				last[r.Client] = r.More
			}
		}
		if written, dropped := a.counts(); n != clients*each+2 || written != uint64(n) || dropped != 0 {
			t.Errorf("%d records are in the outputs, %d count as written and %d as dropped; want %d, all, none", n, written, dropped, clients*each+2)
		}
	})
}

// A reload begins and ends an audit, and has it record locks or not.
func TestReloadOfTheAudit(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	lock := func(resource string) { c.do("LOCK", resource, "20000", "TOKEN", token).granted(1, 20000) }
	lock("a")
	out := new(auditOutput)
	srv.reload(Options{Audit: out})
	lock("b")
	srv.reload(Options{Audit: out, AuditLocks: true})
	lock("c")
	if r := out.wait(t, 1); r.Resources[0] != "c" {
		t.Errorf("got %+v, want the record of c alone", r)
	}
	if _, err := srv.Reload(Options{MaxClients: -1}); err == nil {
		t.Error("got no error")
	}
	lock("d")
	out.wait(t, 2)
	srv.reload(Options{AuditLocks: true})
	lock("e")
	c.do("CLIENT", "KILL", "ID", "999").is(":0")
	srv.reload(Options{Audit: out, AuditLocks: true})
	lock("f")
	if r := out.wait(t, 3); r.Resources[0] != "f" {
		t.Errorf("got %+v, want the record of f: there was no audit before", r)
	}
}
