package proxy

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"redlockd/redlock"
)

// The status page, for a person who asks "do I get locks here, and if not, why not". It shows what
// /metrics and /readyz show, in words, and reloads itself. It needs no login, so it names no resource,
// no token, no user and no client.
//
// The page is written by hand: a template would keep the linker from leaving out methods that are never
// called, and the binary would be half again as large.

// statusHead is the page up to its first heading. It loads nothing: the Content-Security-Policy of
// withoutFrames allows inline styles alone.
const statusHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="2">
<meta name="viewport" content="width=device-width">
<title>redlockd</title>
<style>
  :root { color-scheme: light dark }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
  h1 { font-size: 1.3rem; margin: 0 }
  .small { opacity: .7 }
  .verdict { font-size: 1.1rem; padding: .6rem .9rem; border-radius: .4rem; border-left: .4rem solid; margin: 1rem 0 }
  table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; font-variant-numeric: tabular-nums }
  th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884 }
  .up { color: #18794e } .quarantined { color: #ad5700 } .refused, .down { color: #cd2b31 }
  @media (prefers-color-scheme: dark) { .up { color: #4cc38a } .quarantined { color: #f1a10d } .refused, .down { color: #ff6369 } }
</style>
`

// statusText is the page as it grows. Text that comes from elsewhere (addresses, reasons of masters)
// goes through line, which escapes it: a master must not be able to put a script into the page.
type statusText struct{ strings.Builder }

// line writes one line. format is HTML, args are text.
func (t *statusText) line(format string, args ...any) {
	for i := range args {
		args[i] = html.EscapeString(fmt.Sprint(args[i]))
	}
	fmt.Fprintf(t, format+"\n", args...)
}

// cells are those of one line of a table, as text of any type; tag is th or td.
func (t *statusText) cells(tag string, cells ...any) {
	for _, cell := range cells {
		t.line("<"+tag+">%s", cell)
	}
}

// row is a line of a table. Tags that HTML closes by itself are left open.
func (t *statusText) row(tag string, cells ...any) {
	t.line("<tr>")
	t.cells(tag, cells...)
}

// serveStatus answers with the page: are locks available, which masters have no vote and why, how many
// operations there were. All numbers are of one reading. It is not cached, because an old answer to the
// first question is a wrong one.
func (srv *Server) serveStatus(w http.ResponseWriter, request *http.Request) {
	if !srv.mayShowStatus(request.Host) {
		http.Error(w, fmt.Sprintf("this page is not shown under the name %s: if that is a name of this server, add it to hosts in [http]",
			clipped([]byte(request.Host), 128)), http.StatusMisdirectedRequest)
		return
	}
	// The table of masters comes first, because it answers most questions.
	r := srv.reading()
	var t statusText
	t.WriteString(statusHead)
	t.line("<h1>redlockd %s</h1><div class=small>up for %s</div>", srv.opts.Version, time.Since(srv.started).Round(time.Second))
	t.verdict(srv.ready(r.masters), r.masters)

	t.WriteString("<table>")
	t.row("th", "master", "state", "since", "why", "round trip", "timeouts", "queued", "pending releases")
	for _, m := range r.masters {
		why := m.Reason
		if m.Left > 0 {
			why += fmt.Sprintf(" (%v left)", m.Left.Round(time.Second))
		}
		t.line("<tr class=%s>", m.State)
		t.cells("td", m.Addr, m.State, time.Since(m.Since).Round(time.Second), why, m.RTT.Round(time.Microsecond), m.Timeouts, m.Queued, m.PendingReleases)
	}
	t.WriteString("</table><table>")
	n := &r.locks
	t.row("th", "since the start", "done", "not done", "no quorum")
	t.row("td", "LOCK: granted, held by another", n.Granted, n.Denied, n.NoQuorum)
	t.row("td", "UNLOCK: released, not held", n.Released, n.NotHeld, n.UnlockFail)
	t.row("td", "EXTEND: granted, lost", n.Extended, n.ExtendLost, n.ExtendFail)
	t.WriteString("</table><table>")
	t.row("th", "locks that run", "LOCKs that wait", "hand-overs", "lost by the masters", "undelivered", "clients", "commands", "errors")
	t.row("td", n.Leases, n.Waiters, n.Handovers, n.Lost, srv.counters[countRepliesLost].Load(), r.clients, r.front[countCommands], r.front[countErrors])
	t.WriteString("</table><p class=small>For machines: <a href=metrics>/metrics</a>, <a href=readyz>/readyz</a>, <a href=livez>/livez</a>. " +
		"Which resources: LOCKS and LOCKINFO, for those who may log in.</p>\n</html>\n")

	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.Write([]byte(t.String()))
}

// verdict says in one sentence whether locks are granted: red if they are not, the colour of a
// quarantined master if some master has no vote, else green.
func (t *statusText) verdict(wrong error, masters []redlock.MasterStatus) {
	if wrong != nil {
		t.line(`<p class="verdict down">No locks are granted here: %s.</p>`, wrong)
		return
	}
	colour := redlock.MasterUp
	if voting(masters) < len(masters) {
		colour = redlock.MasterQuarantined
	}
	t.line(`<p class="verdict %s">Locks are granted: %s of %s masters have a vote, and %s are needed.</p>`, colour, voting(masters), len(masters), quorumOf(masters))
}
