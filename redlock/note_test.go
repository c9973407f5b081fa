package redlock

// Goal: it is shown who holds a lock as long as it is held, whatever renews it, and who waits for it; a holder stands in the log where the
// lock is lost. Method: virtual time.

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestNote(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		var mu sync.Mutex
		var log bytes.Buffer
		p := s.open(func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(logWriter(func(line string) {
				mu.Lock()
				defer mu.Unlock()
				log.WriteString(line + "\n")
			}), nil))
		})
		o := p.holder()
		note := func(text string) *HolderNote {
			return &HolderNote{Text: text, Client: "billing", Addr: "10.0.0.1:7", User: "batch"}
		}
		want := func(resource, text string) {
			s.Helper()
			info, err := p.Inspect(s.Context(), resource)
			if err != nil {
				s.Fatal(err)
			}
			for _, l := range info.Leases {
				if text == "" != (l.Note == nil) || text != "" && l.Note.Text != text {
					s.Errorf("LOCKINFO %s: got %+v, want the note %q", resource, l.Note, text)
				}
			}
			for _, l := range p.Leases(func(all []string) bool { return all[0] == resource }, 10) {
				if text == "" != (l.Note == nil) || text != "" && l.Note.Text != text {
					s.Errorf("LOCKS %s: got %+v, want the note %q", resource, l.Note, text)
				}
			}
		}
		req := one("plain", holdTTL).as("plain's own token")
		req.Note = note("a")
		p.lock(req)
		want("plain", "a")
		p.extend(req.Token, holdTTL, "plain")
		want("plain", "a")
		p.commit(compareAndExpire("plain", req.Token, holdTTL)).want(s, "PEXPIRE", "held", 0)
		want("plain", "a")
		p.lock(one("plain", holdTTL).as(req.Token))
		want("plain", "a")
		req.Note = note("b")
		p.lock(req)
		want("plain", "b")
		// The caller is shown without a note, too, and a repetition under another connection keeps the text.
		again := &call{}
		again.Note = &HolderNote{Client: "billing", Addr: "10.0.0.1:8"}
		p.StartLock(&again.Op, one("plain", holdTTL).as(req.Token), again)
		p.finish(again)
		want("plain", "b")
		if got := p.Leases(func([]string) bool { return true }, 10)[0].Note.Addr; got != "10.0.0.1:8" {
			s.Errorf("after a repetition: got the address %s, want that of the repetition", got)
		}
		p.unlock(req.Token, "plain")
		plain := p.lock(one("plain", holdTTL))
		want("plain", "")
		p.unlock(plain.Token, "plain")

		req = several(holdTTL, "h1", "h2").heldBy(o)
		req.Note = note("held")
		c := p.lock(req)
		time.Sleep(2 * holdTTL)
		want("h1", "held")
		req.Note, req.Token, req.Holder = note("taken over"), c.Token, o.Holder
		taken := &call{}
		p.StartHold(&taken.Op, req, taken)
		p.finish(taken)
		want("h2", "taken over")
		time.Sleep(2 * holdTTL)
		want("h2", "taken over")
		s.doAll("DEL", "h1")
		time.Sleep(holdTTL)
		mu.Lock()
		defer mu.Unlock()
		if line := `note="taken over" client=billing addr=10.0.0.1:7 user=batch`; !strings.Contains(log.String(), line) {
			s.Errorf("want %s in the log, got\n%s", line, log.String())
		}
	})
}

// Who holds a resource and who waits for it is listed: readers and a writer, of one resource, of several, and of slots.
func TestWhoWaits(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		ask := func(client string, req LockRequest) *call {
			c := &call{began: time.Now()}
			c.Note = &HolderNote{Client: client}
			p.StartLock(&c.Op, req, c)
			synctest.Wait()
			return c
		}
		readers := func(resource string) LockRequest {
			req := one(resource, 20*time.Second)
			req.Shared = true
			return req
		}
		slots := func() LockRequest {
			req := one("jobs", 20*time.Second).waits(time.Minute)
			req.Slots = 1
			return req
		}
		held := time.Now()
		p.finish(ask("r1", readers("file")))
		time.Sleep(ms) // holders are listed in order of since
		p.finish(ask("r2", readers("file")))
		p.finish(ask("both", several(20*time.Second, "a", "b")))
		p.finish(ask("slot", slots()))
		time.Sleep(time.Second)
		ask("w1", one("file", 20*time.Second).waits(time.Minute))
		time.Sleep(time.Second)
		ask("r3", readers("file").waits(time.Minute))
		ask("wa", one("a", 20*time.Second).waits(time.Minute))
		ask("wb", one("b", 20*time.Second).waits(time.Minute))
		ask("ws", slots())
		for i := range WaitersShown {
			ask(fmt.Sprint("f", i), one("a", 20*time.Second).waits(time.Minute))
		}
		time.Sleep(time.Second)

		var got []string
		describe := func(l LeaseInfo) {
			line := strings.Join(l.Resources, "+") + ":"
			if l.Note != nil {
				line += fmt.Sprintf(" %s since %v;", l.Note.Client, l.Since.Sub(held).Round(time.Second))
			}
			line += fmt.Sprintf(" %d wait:", l.Waiters)
			for _, w := range l.Queue[:min(len(l.Queue), 2)] {
				line += fmt.Sprintf(" %s %v %v", w.Note.Client, w.Waited.Round(time.Second), w.Shared)
			}
			got = append(got, fmt.Sprintf("%s (%d)", line, len(l.Queue)))
		}
		for _, l := range p.Leases(func([]string) bool { return true }, 10) {
			describe(l)
		}
		slices.Sort(got)
		want := []string{
			"a+b: both since 0s; 18 wait: wa 1s false f0 1s false (16)",
			"file: r1 since 0s; 2 wait: w1 2s false r3 1s true (2)",
			"file: r2 since 0s; 2 wait: w1 2s false r3 1s true (2)",
			"jobs#*: 1 wait: ws 1s false (1)",
			"jobs#0: slot since 0s; 0 wait: (0)",
		}
		if !slices.Equal(got, want) {
			s.Errorf("Leases: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for resource, want := range map[string]string{"file": "r1 r2 | w1 r3", "b": "both | wb", "jobs#0": "slot | ws", "free": " | "} {
			info, err := p.Inspect(s.Context(), resource)
			if err != nil {
				s.Fatal(err)
			}
			var holders, queue []string
			for _, l := range info.Leases {
				holders = append(holders, l.Note.Client)
			}
			for _, w := range info.Queue {
				queue = append(queue, w.Note.Client)
			}
			if got := strings.Join(holders, " ") + " | " + strings.Join(queue, " "); got != want {
				s.Errorf("Inspect %s: got %q, want %q", resource, got, want)
			}
		}
	})
}
