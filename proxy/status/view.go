package status

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"redlockd/redlock"
)

// What the parts of the page show, as one user sees it. page.templ only arranges it.
//
// Without a login the page names no resource, no token, no user and no client. A confined user sees its
// own resources beside what everybody sees, the masters included. No token is shown to anybody.

// pageView is what page.templ shows.
type pageView struct {
	// Tone and Title are those of the tab: a person who does not look at the page sees these.
	Tone    tone
	Title   string
	Verdict string
	// Advice follows the verdict; "": there is none.
	Advice  string
	Version string
	// Host is this machine, and the port for clients, if that is none of a socket.
	Host         string
	Up           time.Duration
	Masters      []masterView
	Membership   redlock.Membership // the one in force
	Certificates []Certificate
	Plots        []plotView
	Rates        []rateView
	Facts        []factView
	Events       []event
	Now          time.Time
}

// masterView is a master as the user may see it: Reason, why it has no vote, or a warning, may be left
// out.
type masterView struct {
	redlock.MasterStatus
	Tone tone
	Vote string
	For  time.Duration
	Copy string // how far a learner has got what the others remember, or why it gets nothing; "": nothing is known
}

// rateView is one outcome of an operation.
type rateView struct {
	What, Outcome string
	Total         uint64
	Rate          float32 // per second, lately
}

type factView struct {
	Name, Value string
	Tone        tone
}

// view reads everything that the page shows.
func (st *Status) view(viewer Viewer, now time.Time) *pageView {
	r := st.Reading()
	points, events := st.history.last()
	host, _ := os.Hostname()
	if _, port, err := net.SplitHostPort(r.Name); err == nil && host != "" && !strings.Contains(port, "/") {
		host += ":" + port // several may run on one machine. The path of a socket is not for everybody
	}
	v := &pageView{Version: r.Version, Host: host, Up: r.Up, Membership: r.Membership, Certificates: r.Certificates, Events: events, Now: now}
	v.verdict(r)
	learners := Learners(r.Membership)
	for _, m := range r.Masters {
		one := masterView{MasterStatus: m, Tone: toneOf(m.State), Vote: wordsOf(m.State), For: now.Sub(m.Since)}
		// Without voters nobody has anything to give, and the verdict says enough.
		if at := slices.IndexFunc(learners, func(s redlock.Seat) bool { return MasterOf(s) == m.Addr }); at >= 0 && r.Membership.Voters() > 0 {
			one.Copy = copyText(CopyingOf(learners[at]))
		}
		v.Masters = append(v.Masters, one)
	}
	v.Plots = plotsOf(points)
	var last point
	if len(points) > 0 {
		last = points[len(points)-1]
	}
	v.rates(&r.Locks, &last)
	v.facts(r)
	return v
}

// copyText says how far a learner has got what the others remember.
func copyText(c redlock.Copying) string {
	switch {
	case c.From != "":
		from := strings.ReplaceAll(c.From, ",", ", ")
		return fmt.Sprintf("It is being given what %s remember: %s locks so far (%d %%). It votes when that is done.", from, countText(c.Given), c.Percent)
	case c.Problem == "":
		return ""
	}
	return "Nothing is copied to it at present: " + c.Problem + "."
}

// lowOnMemory is how many masters will soon be full.
func (r *Reading) lowOnMemory() (n int) {
	for i := range r.Masters {
		if r.Masters[i].MemoryIsLow() {
			n++
		}
	}
	return n
}

// memoryText is what a master uses of its memory, which has a limit.
func memoryText(m *redlock.MasterStatus) string {
	return fmt.Sprintf("%d %% of its memory is used.", 100*m.UsedMemory/m.MaxMemory)
}

// verdict says in one sentence whether locks are granted.
func (v *pageView) verdict(r *Reading) {
	n, needed, masters := Voting(r.Masters), Quorum(r.Masters), r.Masters
	err := r.Ready()
	switch votes := fmt.Sprintf("%d of %d masters have a vote, and %d are needed", n, len(masters), needed); {
	case r.Draining || n < needed || r.Locks.Failing():
		v.Tone, v.Title = toneBad, "no locks"
		v.Verdict = "No locks are granted here: " + err.Error() + "."
		switch {
		case r.Draining:
		case n >= needed:
			v.Advice = "The masters are connected, and too few of them grant what they are asked for."
		default:
			v.Advice = "Bring back the masters that are down, and restart none of the others. Masters in quarantine or in doubt vote again by themselves."
		}
		if r.Embedded && v.Advice != "" {
			v.Advice = "They are inside this process, and vote again by themselves when it has CPU."
		}
	case err != nil:
		v.Tone, v.Title = toneWarn, "stops soon"
		v.Verdict = "Locks are granted, but not for long: " + err.Error() + "."
	case n < len(masters):
		v.Tone, v.Title = toneWarn, fmt.Sprintf("%d of %d", n, len(masters))
		v.Verdict = "Locks are granted: " + votes + "."
		if n == needed {
			v.Advice = "If one more loses its vote, no locks are granted."
		}
	case r.lowOnMemory() > 0:
		v.Tone, v.Title, v.Verdict = toneWarn, "little memory", "Locks are granted: "+votes+"."
		v.Advice = fmt.Sprintf("%d of %d masters use 80 %% of their memory or more. One that is full takes no new locks.", r.lowOnMemory(), len(masters))
	default:
		v.Tone, v.Verdict = toneGood, "Locks are granted: "+votes+"."
	}
	if r.Embedded && v.Tone == toneGood { // it is no good server for anybody who does not know this
		v.Tone, v.Title = toneWarn, "for trying"
		v.Advice = "This redlockd is " + ForTrying + "."
	}
	if v.Title != "" {
		v.Title += " – "
	}
	v.Title += "redlockd"
	if v.Host != "" {
		v.Title += " on " + v.Host
	}
}

// rates are the Outcomes of operations. The last row has UNLOCKs and EXTENDs without a quorum.
func (v *pageView) rates(n *redlock.Stats, p *point) {
	last := rateView{What: "both", Outcome: "no quorum"}
	for i, o := range Outcomes {
		if o.what == "" {
			last.Total, last.Rate = last.Total+o.Count(n), last.Rate+p.rates[i]
		} else {
			v.Rates = append(v.Rates, rateView{o.what, o.words, o.Count(n), p.rates[i]})
		}
	}
	v.Rates = append(v.Rates, last)
}

// facts are numbers of now, and some since the start.
func (v *pageView) facts(r *Reading) {
	n := &r.Locks
	audit := factView{"audit", "off", toneGood}
	if r.Audit.On {
		audit.Value = countText(r.Audit.Written) + " lines"
		if r.Audit.Locks {
			audit.Value += ", with locks"
		}
	}
	if r.Audit.Dropped > 0 {
		audit.Value, audit.Tone = audit.Value+", "+countText(r.Audit.Dropped)+" dropped", toneWarn
	}
	v.Facts = []factView{
		{"locks that run here", countText(n.Leases), toneGood},
		{"LOCKs that wait here", fmt.Sprintf("%s of %s", countText(n.Waiters), countText(r.MaxWaiters)), toneGood},
		{"clients", fmt.Sprintf("%s of %s", countText(r.Clients), countText(r.MaxClients)), toneGood},
		{"passed on to the next waiter", countText(n.Handovers), toneGood},
		{"forgotten by the masters", countText(n.Lost), toneGood},
		{"released because the client had gone", countText(r.RepliesLost), toneGood},
		{"commands", countText(r.Commands), toneGood},
		{"errors", countText(r.Errors), toneGood},
		audit,
	}
	for _, c := range r.Certificates {
		fact := factView{"certificate " + c.File, "until " + c.NotAfter.UTC().Format("2006-01-02 15:04 MST"), toneGood}
		if c.Warning != "" {
			fact.Tone = toneWarn
		}
		v.Facts = append(v.Facts, fact)
	}
}

// plotView is a small plot over the last hour.
type plotView struct {
	Title string
	// Now is the last value, Most the largest.
	Now, Most string
	// Ago is how long ago the left end was, Box what the lines are drawn in, Base closes the first line
	// to an area.
	Ago, Box, Base string
	Lines          []lineView
}

// lineView is one line of a plot. Kind tells its lines apart.
type lineView struct{ Kind, Path string }

const (
	plotWidthMin = 30 // one unit for each point: five minutes
	plotHeight   = 60
)

// plotsOf makes the plots.
func plotsOf(points []point) []plotView {
	rate := func(v float64) string { return rateText(float32(v)) + "/s" }
	ms := func(v float64) string { return msText(time.Duration(v)) }
	return []plotView{
		newPlot("locks granted here", points, rate, func(p *point) float64 { return float64(p.rates[0]) }),
		newPlot("LOCKs denied", points, rate, func(p *point) float64 { return float64(p.rates[1]) }),
		newPlot("LOCKs without a quorum", points, rate, func(p *point) float64 { return float64(p.rates[2]) }),
		newPlot("LOCKs that wait here", points, func(v float64) string { return countText(int(v)) }, func(p *point) float64 { return float64(p.waiters) }),
		newPlot("rounds: 99 % (dashed: half)", points, ms,
			func(p *point) float64 { return float64(p.slow) }, func(p *point) float64 { return float64(p.median) }),
	}
}

// newPlot draws one line for each value. The first has the numbers beside the plot. The newest point is
// at the right end.
func newPlot(title string, points []point, text func(float64) string, values ...func(*point) float64) plotView {
	width := max(plotWidthMin, len(points))
	plot := plotView{Title: title, Now: "–", Most: "–", Ago: spanText(time.Duration(width) * pointInterval),
		Box: fmt.Sprintf("0 0 %d %d", width-1, plotHeight), Base: fmt.Sprintf("V%dH%dZ", plotHeight, width-len(points))}
	most := 0.0
	for i := range points {
		for _, value := range values {
			most = max(most, value(&points[i]))
		}
	}
	if len(points) == 0 {
		return plot
	}
	plot.Now, plot.Most = text(values[0](&points[len(points)-1])), text(most)
	for i, value := range values {
		var path strings.Builder
		for n := range points {
			y := plotHeight - 1.0
			if most > 0 {
				y -= value(&points[n]) / most * (plotHeight - 2)
			}
			letter := 'L'
			if n == 0 {
				letter = 'M'
			}
			fmt.Fprintf(&path, "%c%d %.0f", letter, width-len(points)+n, y)
		}
		if len(points) == 1 {
			path.WriteString("h-1") // one point alone draws nothing
		}
		plot.Lines = append(plot.Lines, lineView{[]string{"first", "second"}[i], path.String()})
	}
	return plot
}

const (
	// pageLocksMax bounds the locks that the page shows.
	pageLocksMax = 100
	// pageNamesMax bounds the resources that it shows of one lock.
	pageNamesMax = 4
	// pageWaitersMax bounds the waiters that it names of one lock.
	pageWaitersMax = 3
	// pageTextMax bounds the bytes of a name that it shows.
	pageTextMax = 128
)

// locksView is the locks of all redlockds, and what is waited for. It does not change once it is made.
type locksView struct {
	Locks
	At       time.Time
	Confined bool
	// Problem is why there is no list; "": there is one.
	Problem string
}

// shownLocks are those of a locksView that match a filter.
type shownLocks struct {
	*locksView
	Filter string // "": all match
	// Found is how many match. Rows are those of them to look at first, as RankLeases says.
	Found int
	Rows  []lockView
}

// lockView is a lease as the user may see it.
type lockView struct {
	Lease
	More int // further resources
	// State is what there is to know of it, in words.
	State string
	Tone  tone
	Held  string // since when; "–": not known
	Left  string // of the validity; "–": it is not held
}

// newLocksView lists the locks on resources that the user may use: first those that were lost, then
// those that most wait for.
func newLocksView(viewer Viewer) *locksView {
	v := &locksView{Confined: viewer.Confined()}
	locks, err := viewer.Locks()
	v.At = time.Now()
	if err != nil {
		v.Problem = err.Error()
		return v
	}
	v.Locks = locks
	v.Leases = withWaiters(locks.Leases)
	// The readers of a resource, and its slots (name#1), stay together.
	base := func(l Lease) string {
		name, _, _ := strings.Cut(l.Resources[0], "#")
		return name
	}
	waiters := make(map[string]int)
	for _, l := range v.Leases {
		waiters[base(l)] += l.Waiters
	}
	slices.SortStableFunc(v.Leases, func(a, b Lease) int {
		switch {
		case a.Lost != b.Lost && a.Lost:
			return -1
		case a.Lost != b.Lost:
			return 1
		}
		return waiters[base(b)] - waiters[base(a)]
	})
	return v
}

// withWaiters has all who wait for a resource, at each redlockd, stand with the first lock on it: the
// longest comes first, because there is no order across redlockds.
func withWaiters(leases []Lease) (all []Lease) {
	type place struct{ resource, redlockd string }
	first, counted := make(map[string]int), make(map[place]bool) // first has the index of that lock
	for _, l := range leases {
		at, ok := first[l.Resources[0]]
		// Each reader has the same waiters, those at its redlockd.
		if ok && !counted[place{l.Resources[0], l.Redlockd}] {
			h := &all[at]
			h.Waiters += l.Waiters
			h.Queue = slices.Concat(h.Queue, l.Queue)
			slices.SortStableFunc(h.Queue, func(a, b redlock.WaiterInfo) int { return cmp.Compare(b.Waited, a.Waited) })
		}
		for _, resource := range l.Resources {
			counted[place{resource, l.Redlockd}] = true
			if !ok {
				first[resource] = len(all)
			}
		}
		if ok {
			l.Waiters, l.Queue = 0, nil
		}
		if !ok || l.TokenDigest != "" {
			all = append(all, l)
		}
	}
	return all
}

// filtered are the locks that have the text in the name of a resource, or in what is known of the holder
// or of one who waits. The case of letters does not matter.
func (v *locksView) filtered(filter string) *shownLocks {
	shown := &shownLocks{locksView: v, Filter: filter}
	filter = strings.ToLower(strings.TrimSpace(filter))
	var found []int
	for i := range v.Leases {
		if filter == "" || v.Leases[i].has(filter) {
			found = append(found, i)
		}
	}
	shown.Found = len(found)
	rows := redlock.RankLeases(redlock.ByAny, len(found), pageLocksMax, func(i int) *redlock.LeaseInfo { return &v.Leases[found[i]].LeaseInfo })
	slices.Sort(rows) // in the order of Leases
	for _, i := range rows {
		shown.Rows = append(shown.Rows, newLockView(v.Leases[found[i]], v.At))
	}
	return shown
}

// listedFirst is which locks are shown where not all can be.
const listedFirst = "the longest held, those with the longest waits and with most waiters, and those that were lost."

// Count says how many locks there are, and how many of them are shown.
func (v *shownLocks) Count() string {
	all := countText(len(v.Leases))
	if v.More {
		all = "more than " + all
	}
	switch {
	case v.Filter != "" && v.Found == 0:
		return fmt.Sprintf("None of %s %s “%s” in a name, a holder or a note.", all, plural(len(v.Leases), "lock has", "locks has"), shownText(v.Filter))
	case len(v.Leases) == 0 && v.Confined:
		return "No locks on resources that this user may use."
	case len(v.Leases) == 0:
		return "No locks."
	case v.Filter != "" && len(v.Rows) < v.Found:
		return fmt.Sprintf("%d of %s that match, of %s: "+listedFirst, len(v.Rows), countText(v.Found), all)
	case v.Filter != "":
		return fmt.Sprintf("%d of %s.", v.Found, all)
	case len(v.Rows) < len(v.Leases) || v.More:
		return fmt.Sprintf("%d of %s: "+listedFirst, len(v.Rows), all)
	}
	return all + " in all."
}

// From says who has answered. The first one is this redlockd.
func (v *locksView) From() string {
	switch n := len(v.Answered); {
	case v.Confined:
		return fmt.Sprintf("%d %s answered.", n, plural(n, "redlockd has", "redlockds have"))
	case n == 1:
		return "No other redlockd has answered."
	}
	return "Answered: this redlockd, " + strings.Join(v.Answered[1:], ", ") + "."
}

// Several reports whether the names of redlockds are shown with the locks.
func (v *locksView) Several() bool { return !v.Confined && len(v.Answered) > 1 }

// has reports whether a text that is shown of the lease has the filter in it, which is in lower case.
func (l *Lease) has(filter string) bool {
	texts := slices.Clone(l.Resources)
	add := func(n *redlock.HolderNote) {
		if n != nil {
			texts = append(texts, n.Text, n.Client, n.User, n.Addr)
		}
	}
	add(l.Note)
	for _, w := range l.Queue {
		add(w.Note)
	}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), filter) })
}

func newLockView(lease Lease, now time.Time) lockView {
	v := lockView{Lease: lease, Held: "–", Left: "–", Tone: toneGood}
	v.Resources, v.Queue = lease.Resources[:min(len(lease.Resources), pageNamesMax)], lease.Queue[:min(len(lease.Queue), pageWaitersMax)]
	v.More = len(lease.Resources) - len(v.Resources)
	switch {
	case lease.TokenDigest == "":
		v.State = "waited for"
	case lease.Lost:
		v.State, v.Tone = "lost: the masters no longer have it", toneBad
	case lease.DelayLeft() > 0:
		v.State = "in its delay: its TTL has ended without a release"
	case lease.Shared:
		v.State = "shared"
	default:
		v.State = "held"
	}
	switch left := max(lease.Validity, lease.DelayLeft()); {
	case lease.Bound && !lease.Lost:
		v.Left = "renewed" // as long as its connection stands
	case left > 0:
		v.Left = tenthsText(left)
	}
	if lease.Note != nil {
		v.Held = tenthsText(now.Sub(lease.Since))
	}
	return v
}

// shownText is a name that a client has chosen, bounded, with everything that is no visible character
// written as an escape: nothing can hide, or turn around what stands behind it.
func shownText(text string) string {
	cut := len(text) > pageTextMax
	if cut {
		n := pageTextMax
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	var shown strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&shown, `\x%02x`, text[i])
		case strconv.IsPrint(r):
			shown.WriteRune(r)
		default:
			shown.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		i += size
	}
	if cut {
		shown.WriteString("…")
	}
	return shown.String()
}

// spanText is a time in the two largest of its units.
func spanText(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", s/60, s%60), " 0 s")
	case s < 86400:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", s/3600, s/60%60), " 0 min")
	}
	return strings.TrimSuffix(fmt.Sprintf("%d d %d h", s/86400, s/3600%24), " 0 h")
}

// tenthsText is as spanText, with tenths of seconds below a minute.
func tenthsText(d time.Duration) string {
	if d = max(0, d.Round(time.Second/10)); d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return spanText(d)
}

// atMost is words and a time that is left, in whole seconds that are enough; "": it is not known.
func atMost(words string, left time.Duration) string {
	if left <= 0 {
		return ""
	}
	return words + spanText(left.Truncate(time.Second)+time.Second) + " at most"
}

// countText writes an integer, 0 or more, with a narrow space between thousands.
func countText(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// rateText writes a rate: a digit behind the point where it is small.
func rateText(v float32) string {
	if v > 0 && v < 10 {
		return strconv.FormatFloat(float64(v), 'f', 1, 32)
	}
	return countText(uint64(v + 0.5))
}

// msText writes a short time in milliseconds.
func msText(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// offsetText writes how far a clock is ahead.
func offsetText(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign = "−"
	}
	return sign + msText(d.Abs())
}

// clockText is the time of day in UTC, with the day if that is another one.
func clockText(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		return at.Format("2006-01-02 15:04:05")
	}
	return at.Format("15:04:05")
}

// raisedText says who raised the ceiling, in brackets; "": it is not known.
func raisedText(by string) string {
	if by == "" {
		return ""
	}
	return " (" + shownText(by) + ")"
}
