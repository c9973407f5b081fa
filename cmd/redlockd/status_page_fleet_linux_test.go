package main

// Goal: the pictures of the status page, docker/status-page.png and status-page-dark.png, are of a fleet that really runs. Method: five masters, three
// redlockds and their clients in namespaces with names of their own, so that the pictures have none of this machine.
//
//	UPDATE=1 go test -run TestStatusPageOfAFleet ./cmd/redlockd      makes them anew: six minutes, as root

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

func TestStatusPageOfAFleet(t *testing.T) {
	if os.Getenv("UPDATE") == "" && os.Getenv("REDLOCK_PICTURES") == "" {
		redisproc.Skip(t, "makes pictures: UPDATE=1 runs it")
	}
	if os.Getenv("APART") == "" {
		redisproc.Need(t, "unshare", "ip", "redis-server", "chromium", "pngquant")
		script := `mount --bind "$1" /etc/hosts && ip link set lo up && ip route add local 10.0.0.0/8 dev lo && shift && exec "$@"`
		hosts := "127.0.0.1 localhost\n"
		for i := range 5 {
			hosts += fmt.Sprintf("10.0.0.%d redis-%[1]d\n", i+1)
		}
		file := filepath.Join(t.TempDir(), "hosts")
		writeFile(t, file, hosts, 0o644)
		cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "sh", "-c", script, "sh", file, os.Args[0], "-test.run=^TestStatusPageOfAFleet$", "-test.v")
		cmd.Env = append(os.Environ(), "APART=1", "REDLOCK_TESTS=all")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return
	}
	var masters []string
	for i := range 5 {
		cmd := exec.Command("redis-server", "--bind", fmt.Sprintf("10.0.0.%d", i+1), "--save", "", "--protected-mode", "no", "--dir", t.TempDir())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		masters = append(masters, fmt.Sprintf("redis-%d:6379", i+1))
	}
	config := configFile(t, `
		[auth]
		users = [{name = "ops", password = "right"}, {name = "billing", password = "b"}, {name = "reports", password = "r"}, {name = "shop", password = "s"}]
		`)
	f := &shownFleet{t: t}
	for i := range 3 {
		script := filepath.Join(t.TempDir(), "redlockd")
		writeFile(t, script, fmt.Sprintf("#!/bin/sh\nexec unshare --uts sh -c 'hostname lock-%d && exec \"$0\" \"$@\"' %s \"$@\"\n", i+1, binary(t)), 0o700)
		f.programs = append(f.programs, launchBinary(t, script, "--config", config, "--masters", strings.Join(masters, ","), "--bootstrap",
			"--listen", fmt.Sprintf("127.0.1.%d:6380", i+1), "--http-listen", fmt.Sprintf("127.0.1.%d:9121", i+1)))
	}
	f.lock()
	var workers sync.WaitGroup
	for i := range 12 {
		w := f.dial("shop", fmt.Sprintf("checkout-%04x", 4099*i+1021))
		workers.Go(func() { work(t, w) })
	}
	t.Cleanup(workers.Wait)
	b := startBrowser(t)
	url := "http://" + f.programs[0].web().addr + "/"
	b.open(strings.Replace(url, "//", "//ops:right@", 1) + "login")
	b.await(`document.URL.endsWith("/") && document.readyState == "complete"`)
	b.open(url)
	b.await(`document.body?.innerText.includes("lock-3:6380") && document.querySelectorAll("#locks tbody tr").length == 100`)
	if os.Getenv("UPDATE") == "" {
		time.Sleep(40 * time.Second)
		b.pictures("fleet")
		return
	}
	time.Sleep(5*time.Minute + 20*time.Second) // until the plots are full
	for name, dark := range map[string]bool{"../../docker/status-page.png": false, "../../docker/status-page-dark.png": true} {
		b.screen(1280, dark)
		b.shot(name, 1280, atoi(b.eval(`Math.ceil(document.getElementById("locks").closest("section").getBoundingClientRect().bottom) + 8`)))
		if out, err := exec.Command("pngquant", "--force", "--ext", ".png", "--strip", name).CombinedOutput(); err != nil {
			t.Errorf("pngquant: %v, %s", err, out)
		}
	}
}

// shownFleet is redlockds and what their clients do.
type shownFleet struct {
	t        *testing.T
	programs []*program
	clients  int
}

// dial connects a client of one of the redlockds.
func (f *shownFleet) dial(user, name string) *wire {
	f.t.Helper()
	f.clients++
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 0, 2, byte(f.clients%40+10))}}
	conn, err := from.Dial("tcp", f.programs[f.clients%len(f.programs)].addr)
	if err != nil {
		f.t.Fatal(err)
	}
	w := newWire(f.t, conn)
	w.want("AUTH "+user+" "+user[:1], "OK")
	w.want("CLIENT SETNAME "+name, "OK")
	return w
}

// lock has 151 resources locked, and some waited for.
func (f *shownFleet) lock() {
	billing, reports, shop := f.dial("billing", "billing-7f9c"), f.dial("reports", "reports-2"), f.dial("shop", "checkout-b41d")
	billing.grant(`LOCK ledger:close 60s HOLD NOTE "close of the month"`)
	reports.grant(`LOCK warehouse:export 60s HOLD NOTE "nightly export"`)
	shop.grant(`LOCK gpu 60s HOLD SLOTS 2 NOTE "product pictures"`)
	f.dial("shop", "pictures-0c77").grant(`LOCK gpu 60s HOLD SLOTS 2 NOTE "product pictures"`)
	for i := range 6 {
		f.dial("shop", fmt.Sprintf("catalog-%d", i+1)).grant(`LOCK catalog 60s HOLD SHARED NOTE "read prices"`)
	}
	for i := range 100 {
		billing.grant(fmt.Sprintf(`LOCK invoice:2026-11:%04d 60s HOLD NOTE "nightly invoices"`, 17*i+1003))
	}
	for i := range 41 {
		shop.grant(fmt.Sprintf(`LOCK cart:%05d 60s HOLD`, 7919*i%90000+10000))
	}
	for _, w := range []struct{ user, name, lock string }{
		{"billing", "billing-52aa", `ledger:close 60s WAIT 50m NOTE "late bookings"`},
		{"reports", "reports-1", `ledger:close 60s WAIT 50m NOTE "balance"`},
		{"reports", "reports-3", `ledger:close 60s WAIT 50m`},
		{"shop", "catalog-import", `catalog 60s WAIT 50m NOTE "new prices"`},
		{"shop", "pictures-91e0", `gpu 60s SLOTS 2 WAIT 50m NOTE "product pictures"`},
		{"reports", "reports-4", `warehouse:export 60s WAIT 50m NOTE "weekly report"`},
	} {
		f.dial(w.user, w.name).send("LOCK " + w.lock)
		time.Sleep(700 * time.Millisecond)
	}
}

// work takes and releases locks for as long as the test runs, now more, now less.
func work(t *testing.T, w *wire) {
	for began := time.Now(); t.Context().Err() == nil; {
		resource := fmt.Sprintf("stock:%d", rand.IntN(30))
		if token, ok := strings.CutPrefix(w.do("LOCK "+resource+" 10s"), "["); ok {
			time.Sleep(time.Duration(1+rand.IntN(40)) * time.Millisecond)
			token, _, _ = strings.Cut(token, " ")
			w.do("UNLOCK " + resource + " " + token)
		}
		wave := 2 + float64(time.Since(began)/time.Second%97)/97
		time.Sleep(time.Duration(float64(rand.IntN(120)) * wave * float64(time.Millisecond)))
	}
}
