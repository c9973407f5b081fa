package main

import (
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
)

// Three of five masters are full: no lock is granted, and nothing may be green. Every surface has the reason and what ends it; the log has one
// line at the beginning and one at the end; releases go on.
func TestFullMastersAreShownEverywhere(t *testing.T) {
	servers, addrs := startMasters(t, 5)
	p := launch(t, "--masters", addrs, "--bootstrap", "--http-listen", "127.0.0.1:0")
	client := p.dial()
	client.lock("held", "t1")
	for _, s := range servers { // one that votes later must find somebody to vouch for its clock, and full masters keep no statement
		p.waitLog(`"msg":"master up","master":"` + s.Addr)
	}
	const full, cure = "its memory is full (OOM)", "raise maxmemory"
	for _, s := range servers[:3] {
		redisCLI(t, s.Addr, "CONFIG", "SET", "maxmemory", "1")
	}
	for _, s := range servers[:3] {
		if line := p.waitLog(`"msg":"master refused","master":"` + s.Addr); !strings.Contains(line, full) || !strings.Contains(line, cure) {
			t.Errorf("the log: got %s, want the reason and the cure", line)
		}
	}
	p.waitLog(`"msg":"quorum lost`)
	web := p.web()
	code, body := web.get("/readyz")
	if code != 503 || strings.Count(body, full) != 3 || !strings.Contains(body, "no quorum: 2 of 5 masters have a vote") || !strings.Contains(body, cure) {
		t.Errorf("/readyz: got %d %s", code, body)
	}
	for path, wants := range map[string][]string{
		"/": {`data-tone="bad"`, "No locks are granted here: no quorum: 2 of 5 masters have a vote", full, cure},
		"/metrics": {"redlockd_ready 0", "redlockd_masters_voting 2", `redlockd_master_state{master="` + servers[0].Addr + `",state="refused"} 1`,
			`redlockd_master_memory_max_bytes{master="` + servers[0].Addr + `"} 1`, `redlockd_master_memory_max_bytes{master="` + servers[3].Addr + `"} 0`},
	} {
		_, body := web.get(path)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %q is not there", path, want)
			}
		}
	}
	if info := client.do("INFO masters"); !strings.Contains(info, "masters_up:2") || !strings.Contains(info, "state=refused,reason="+full) || !strings.Contains(info, ",maxmemory=1") {
		t.Errorf("INFO masters: got %s", info)
	}
	if reply := client.do("LOCK another 30s"); !strings.HasPrefix(reply, "NOQUORUM") || !strings.Contains(reply, full) || !strings.Contains(reply, cure) {
		t.Errorf("LOCK: got %s", reply)
	}
	client.want("UNLOCK held t1", "1")
	later := listen(t, binary(t), "--masters", addrs)
	later.waitLog(`"msg":"master refused","master":"` + servers[0].Addr)
	if strings.Contains(later.log(), "master down") {
		t.Errorf("a redlockd that has started since: got the log\n%s\nwant no master down", later.log())
	}
	stdout := wantRun(t, cli.ExitFailed, full, "", "check", "--masters", addrs)
	for _, want := range []string{"no vote: " + full, "to fix it: " + cure, "No quorum is available: 2 of 5 masters can vote, 3 are needed."} {
		if !strings.Contains(stdout, want) {
			t.Errorf("check: got\n%s\nwant %q", stdout, want)
		}
	}
	if stdout := wantRun(t, cli.ExitOK, full, "", "members", "--masters", addrs); strings.Count(stdout, full) != 3 {
		t.Errorf("members: got\n%s\nwant the reason three times", stdout)
	}
	for _, s := range servers[:3] {
		redisCLI(t, s.Addr, "CONFIG", "SET", "maxmemory", "0")
	}
	p.waitLog(`"msg":"quorum is back`)
	client.lock("another", "t2")
	if code, body := web.get("/readyz"); code != 200 {
		t.Errorf("/readyz at the end: got %d %s", code, body)
	}
	redisCLI(t, servers[4].Addr, "CONFIG", "SET", "maxmemory", "50mb")
	redisCLI(t, servers[4].Addr, "SETRANGE", "large", "40000000", "x")
	if line := p.waitLog("little memory left on a master"); !strings.Contains(line, `"master":"`+servers[4].Addr) {
		t.Errorf("the log: got %s, want nothing of memory but of the last one", line)
	}
	if _, body := web.get("/"); !strings.Contains(body, `data-tone="warn"`) || !strings.Contains(body, "1 of 5 masters use 80 % of their memory or more") {
		t.Errorf("the page of a master with little memory left: got\n%.1000s", body)
	}
	wantRun(t, cli.ExitOK, "its maxmemory: when it is full, it takes no new locks", "", "check", "--masters", addrs)
}
