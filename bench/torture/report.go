package main

// The report of a run: report.md and timeline.svg.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	reportFile   = "report.md"
	timelineFile = "timeline.svg"
	outageLeast  = int64(time.Second) // without any grant
	outagesShown = 12
	causesShown  = 6
	foundShown   = 20
)

type report struct {
	options options
	date    time.Time
	cluster *cluster
	history *history
	nemesis *nemesis
	ready   []string // what the clients say about themselves
	commit  string

	began, faultsEnded, workEnded, healed int64
	interrupted                           bool // or with a bug: nobody has looked whether it heals

	granted  []int64 // when, in order
	outages  []span
	register registerChecked
	found    []violation
	cpu      time.Duration
	load     string
}

func newReport(o options, c *cluster, h *history, n *nemesis) *report {
	r := &report{options: o, date: time.Now().UTC().Truncate(time.Second), cluster: c, history: h, nemesis: n, began: monotonic(), commit: commit(), cpu: -cpuUsed()}
	for _, client := range c.clients {
		r.ready = append(r.ready, client.ready)
	}
	return r
}

// show writes a line now and then until the context ends.
func (r *report) show(ctx context.Context, out io.Writer) {
	for tick := time.Tick(10 * time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		r.history.mu.Lock()
		leases, found := len(r.history.leases), len(r.history.found)
		r.history.mu.Unlock()
		r.nemesis.mu.Lock()
		strikes := len(r.nemesis.strikes)
		r.nemesis.mu.Unlock()
		fmt.Fprintf(out, "torture: %v: %d leases, %d faults, %d violations so far (most are looked for at the end)\n",
			time.Duration(monotonic()-r.began).Round(time.Second), leases, strikes, found)
	}
}

// judge checks the history. Nothing runs any more.
func (r *report) judge() {
	h := r.history
	r.found = append(slices.Clone(h.found), unjust(h.refusals, h.forces, r.cluster.lineages)...)
	marks, found := applyForces(h.leases, h.forces, r.cluster.lineages)
	r.found = append(r.found, found...)
	r.found = append(r.found, checkLeases(append(marks, h.leases...), map[string]int{slotGroup: slotsMost})...)
	done, found := checkRegisters(h.accesses)
	r.register, r.found = done, append(r.found, found...)
	slices.SortStableFunc(r.found, func(a, b violation) int { return cmp.Compare(a.at, b.at) })
	for _, l := range h.leases {
		for _, g := range l.grants {
			r.granted = append(r.granted, g.granted)
		}
	}
	slices.Sort(r.granted)
	r.outages = outages(r.granted, r.began, r.faultsEnded)
}

// end notes what is known when the last process has ended.
func (r *report) end() {
	r.cpu += cpuUsed()
	load, _ := os.ReadFile("/proc/loadavg")
	r.load = strings.Join(strings.Fields(string(load))[:3], " ")
}

// cpuUsed is the CPU time of this process, and of its children that have ended.
func cpuUsed() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		syscall.Getrusage(who, &used)
		sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return sum
}

// outages are the times of more than outageLeast without a grant.
func outages(granted []int64, from, to int64) (all []span) {
	last := from
	for _, at := range append(slices.Clone(granted), to) {
		if at = min(at, to); at-last > outageLeast {
			all = append(all, span{last, at})
		}
		last = max(last, at)
	}
	return all
}

// longest is the longest time without a grant.
func (r *report) longest() (longest time.Duration) {
	last := r.began
	for _, at := range append(slices.Clone(r.granted), r.faultsEnded) {
		at = min(at, r.faultsEnded)
		longest = max(longest, time.Duration(at-last))
		last = max(last, at)
	}
	return longest
}

// twoHolders is how often two believed to hold one resource.
func (r *report) twoHolders() (n int) {
	for _, v := range r.found {
		if strings.HasPrefix(v.text, twoHolders) {
			n++
		}
	}
	return n
}

// good says whether the run shows what it should: no violation, or, of a planted bug, two holders.
func (r *report) good() bool {
	if r.options.planted != nil {
		return r.twoHolders() > 0
	}
	return len(r.found) == 0 && r.register.undecided == 0 && len(r.history.leases) > 0 && r.register.accesses > 0
}

func (r *report) verdict() string {
	text := ""
	if p := r.options.planted; p != nil {
		text = fmt.Sprintf("planted: %s. Two holders were found %d times: ", p.what, r.twoHolders())
	}
	return text + fmt.Sprintf("violations = %d in %v under %d faults: %d leases, %d accesses to registers in %d windows (%d undecided)",
		len(r.found), time.Duration(r.faultsEnded-r.began).Round(time.Second), len(r.nemesis.strikes), len(r.history.leases), r.register.accesses, r.register.windows, r.register.undecided)
}

// at is a moment as the report shows it: since the beginning.
func (r *report) at(t int64) string { return fmt.Sprintf("%.1f s", float64(t-r.began)/1e9) }

func (r *report) write(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, timelineFile), r.timeline(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, reportFile), r.markdown(), 0o644)
}

func (r *report) markdown() []byte {
	var out text
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	o, h := r.options, r.history
	length := time.Duration(r.faultsEnded - r.began)
	p("# Torture of redlockd\n\n**%s**\n", r.verdict())
	p("%s, seed %d, %v of faults; the longest time without a grant was %.1f s.\n", r.commit, o.seed, length.Round(time.Second), r.longest().Seconds())
	p("Five redis-servers, three redlockds and clients in %s, each in a network namespace of its own. To repeat it:\n", strings.Join(o.languages, ", "))
	only := ""
	if o.only != "" {
		only = fmt.Sprintf(" --only %q", o.only)
	}
	if o.planted != nil {
		only += " --planted " + o.planted.name
	}
	if len(o.languages) < len(languages) {
		only += " --languages " + strings.Join(o.languages, ",")
	}
	p("    make tools bench-libraries && go run -C bench ./torture --for %v --seed %d --every %v --sessions %d --pace %v%s\n", o.length, o.seed, o.every, o.sessions, o.pace, only)
	p("A run of the same seed is similar and not the same. Times are seconds since the beginning.\n")
	p("![Faults, grants per second and outages over time](%s)\n", timelineFile)

	p("## What was checked\n\n| | |\n|---|---|")
	p("| two that believed to hold one resource at once, more holders than slots, a fence that is not above those known before | %d leases, %d grants |", len(h.leases), len(r.granted))
	p("| the accesses of holders to the guarded registers, by porcupine | %d accesses in %d windows, %d undecided |", r.register.accesses, r.register.windows, r.register.undecided)
	p("| a fence that the register refused before the end of its holder's validity | %d late writes were refused, as they should be |", h.refused)
	healed := fmt.Sprintf("after %.1f s", float64(r.healed-r.workEnded)/1e9)
	if r.interrupted {
		healed = "nobody has looked"
	}
	p("| all resources can be locked again through all redlockds after the last fault, and no key is left | %s |", healed)
	p("| **violations** | **%d** |\n", len(r.found))
	r.writeFound(p)

	p("## Leases\n\n| taken with | leases |\n|---|---|")
	for _, kind := range sortedKeys(h.byKind) {
		p("| %s | %d |", kind, h.byKind[kind])
	}
	p("| **all** | **%d**, %.1f/s |\n", len(h.leases), float64(len(h.leases))/length.Seconds())
	p("| language | leases |\n|---|---|")
	byLanguage := map[string]int{}
	for _, l := range h.leases {
		language, _, _ := strings.Cut(l.who, "/")
		byLanguage[language]++
	}
	for _, language := range o.languages {
		p("| %s | %d |", language, byLanguage[language])
	}
	p("")
	if len(h.byForce) > 0 {
		p("Locks that an operator ended:\n\n| | |\n|---|---|")
		for _, outcome := range sortedKeys(h.byForce) {
			p("| %s | %d |", outcome, h.byForce[outcome])
		}
		p("")
	}
	p("What else asking for a lock ended with:\n\n| | |\n|---|---|")
	for _, code := range sortedKeys(h.errors) {
		p("| %s | %d |", strings.ReplaceAll(code, "|", "/"), h.errors[code])
	}
	p("")
	r.writeFaults(p)
	r.writeOutages(p)

	p("## The machine\n\n| | |\n|---|---|")
	p("| date | %s |", r.date.Format(time.DateTime+" MST"))
	p("| redlockd | %s |", r.commit)
	p("| machine | %d cores, %s, Linux %s; load average at the end %s |", runtime.NumCPU(), cpuModel(), kernel(), r.load)
	p("| programs | %s; %s |", redisVersion(), strings.Join(r.ready, "; "))
	p("| CPU of everything | %.2f cores on average |", r.cpu.Seconds()/time.Duration(r.workEnded-r.began).Seconds())
	p("| packets | %d, of which faults dropped %d |", r.cluster.network.packets.Load(), r.cluster.network.dropped.Load())
	p("| calls of clients | %d |", h.calls)
	return out
}

// writeFound lists violations, with what happened around each.
func (r *report) writeFound(p func(string, ...any)) {
	for i, v := range r.found {
		if i == foundShown {
			p("… and %d more\n", len(r.found)-foundShown)
			break
		}
		p("* **%s, %s**: %s", r.at(v.at), v.resource, v.text)
		for _, s := range r.active(v.at-int64(3*time.Second), v.at+int64(time.Second)) {
			p("  * fault, %s to %s: %s", r.at(s.began), r.at(s.ended), s)
		}
		for _, l := range r.history.leases {
			if l.resource != v.resource || l.grants[0].granted > v.at+int64(time.Second) || max(l.until(), l.grants[len(l.grants)-1].granted) < v.at-int64(time.Second) {
				continue
			}
			p("  * %s: asked %s, granted %s, believed until %s", l, r.at(l.grants[0].asked), r.at(l.grants[0].granted), r.at(l.until()))
		}
	}
	p("")
}

// active are the faults that were in force within a time.
func (r *report) active(from, to int64) (all []*strike) {
	for _, s := range r.nemesis.strikes {
		if s.began < to && s.ended > from {
			all = append(all, s)
		}
	}
	return all
}

func (r *report) writeFaults(p func(string, ...any)) {
	p("## Faults\n\n| fault | times | seconds in all |\n|---|---|---|")
	var failed []*strike
	for _, f := range r.options.faults {
		times, seconds := 0, 0.0
		for _, s := range r.nemesis.strikes {
			if s.kind != f.name {
				continue
			}
			times++
			seconds += float64(s.ended-s.began) / 1e9
			if s.failed != nil {
				failed = append(failed, s)
			}
		}
		p("| %s | %d | %.0f |", f.name, times, seconds)
	}
	p("")
	if len(failed) > 0 {
		p("Faults that could not be brought about or undone as meant:\n")
		for _, s := range failed {
			p("* %s: %s: %v", r.at(s.began), s, s.failed)
		}
		p("")
	}
}

func (r *report) writeOutages(p func(string, ...any)) {
	total := time.Duration(0)
	for _, o := range r.outages {
		total += time.Duration(o.to - o.from)
	}
	p("## Outages\n\nTimes of more than 1 s in which no client was granted any lock: %d, %.0f s of %.0f s in all. While a majority of masters is away or must wait "+
		"until nothing that it has forgotten can be held (up to %v and a bit), this is what redlockd promises.\n",
		len(r.outages), total.Seconds(), time.Duration(r.faultsEnded-r.began).Seconds(), maxTTL)
	if len(r.outages) == 0 {
		return
	}
	longest := slices.Clone(r.outages)
	slices.SortFunc(longest, func(a, b span) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	p("| the longest from | for | faults from %v before on |\n|---|---|---|", maxTTL)
	for _, o := range longest[:min(len(longest), outagesShown)] {
		var names []string
		for _, s := range r.active(o.from-int64(maxTTL), o.to) {
			names = append(names, s.String())
		}
		if more := len(names) - causesShown; more > 0 {
			names = append(names[:causesShown], fmt.Sprintf("and %d more", more))
		}
		p("| %s | %.1f s | %s |", r.at(o.from), float64(o.to-o.from)/1e9, strings.Join(names, "; "))
	}
	p("")
}

// commit says which redlockd was built, as git names it.
func commit() string {
	out, err := exec.Command("git", "log", "-1", "--format=%h of %cs").Output()
	if err != nil {
		return "Commit unknown"
	}
	name := "Commit " + strings.TrimSpace(string(out))
	if changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err == nil && len(changed) > 0 {
		name += ", with changes"
	}
	return name
}

func redisVersion() string {
	out, _ := exec.Command("redis-server", "--version").Output()
	words := strings.Fields(string(out))
	if len(words) < 3 {
		return "redis-server unknown"
	}
	return "redis-server " + strings.TrimPrefix(words[2], "v=")
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, model, _ := strings.Cut(string(info), "model name")
	model, _, _ = strings.Cut(strings.TrimLeft(model, "\t :"), "\n")
	return cmp.Or(model, "unknown")
}

func kernel() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(release))
}

func moduleVersion(path string) string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "unknown"
}
