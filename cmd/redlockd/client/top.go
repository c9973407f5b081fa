package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
)

// topCount bounds how many leases top asks for.
const topCount = 1000

var Top = cli.Command{Name: "top", Summary: "show what a redlockd that runs does, anew every second", Audience: cli.ForClient, Run: runTop,
	Flags: []cli.Flag{
		{Name: "interval", Arg: "duration", Usage: "the pause between two looks: from 200ms to 1m (default 1s)"},
		{Name: "once", Usage: "print once, and end"},
		{Name: "all", Usage: "look at the locks of all redlockds over the same masters"},
		byFlag,
		timeoutFlag(clientTimeout),
	},
	Help: `Usage: redlockd top [flags]

Shows what a redlockd that runs does, anew every second: how many locks it grants and refuses per second, its masters, the lock with the
longest wait and those that most wait for, and those that have been held for longest, as many as fit. q or Ctrl-C ends it. If the server
does not answer, top says so and tries again. Where the output is no terminal, and with --once, it prints once and ends; rates then count
over one interval.

The server says which locks are the first of each list, however many it has. --by shows one list, which fills the screen: "held" the
locks that have been held for longest, "waited" those with the longest waits, "waiters" those with most waiters, "lost" those that the
masters do not have any more. --all looks at the locks of all redlockds over the same masters; the rates and masters are those of the
one that it asks.

Exit codes: 0 done; 1 the server refuses, or, where it prints once, does not answer; 2 the command line or the configuration is wrong.
`}

// runTop shows what a server does.
func runTop(c *cli.Call) error {
	interval, err := c.Duration("interval", time.Second, 200*time.Millisecond, time.Minute, "")
	if err != nil {
		return cli.Usage(err)
	}
	to, timeout, err := servers(c, clientTimeout)
	if err != nil {
		return err
	}
	t := &topView{to: to, timeout: timeout, ask: locksRequest{all: c.On("all")}, interval: interval}
	if t.ask.by, err = orderOf(c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	screen, ok := c.Stdout.(*os.File)
	if ok {
		_, err := unix.IoctlGetWinsize(int(screen.Fd()), unix.TIOCGWINSZ)
		ok = err == nil
	}
	if !ok || c.On("once") {
		err = t.once(ctx, c.Stdout)
	} else {
		err = t.show(ctx, stop, screen)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("top: %w", err)
	}
	return nil
}

// topView is what top shows, and what it has seen before.
type topView struct {
	to       []*config.Endpoint
	timeout  time.Duration
	client   *Connection // nil: there is none now
	ask      locksRequest
	interval time.Duration
	before   topLook
}

// topLook is what the server has answered at one time.
type topLook struct {
	from  string // its address
	at    time.Time
	info  map[string]string
	locks *LockList
}

// look asks the server for what fits into so many lines. After an error, the next look makes another
// connection.
func (t *topView) look(ctx context.Context, height int) (l topLook, err error) {
	t.ask.count = min(height, topCount)
	if t.ask.by == "" {
		t.ask.count = min(4*height, topCount) // a quarter are those held for longest, see redlock.RankLeases
	}
	if t.client == nil {
		if t.client, err = connectFirst(ctx, t.to, t.timeout); err != nil {
			return l, err
		}
	}
	v, err := t.client.Do("INFO", "server", "clients", "masters", "locks")
	if err == nil {
		l = topLook{from: t.client.Addr(), at: time.Now(), info: make(map[string]string)}
		for _, fields := range infoOf(v.Text) {
			maps.Copy(l.info, fields)
		}
		l.locks, err = t.ask.of(t.client)
	}
	if err != nil {
		t.client.Close()
		t.client = nil
	}
	return l, err
}

// refusesUser reports whether another try would end with the same error.
func refusesUser(err error) bool {
	refusal, _ := errors.AsType[ServerError](err)
	code, _, _ := strings.Cut(string(refusal), " ")
	return slices.Contains([]string{"NOAUTH", "WRONGPASS", "NOPERM"}, code)
}

// once prints what the server does within one interval.
func (t *topView) once(ctx context.Context, w io.Writer) (err error) {
	if t.before, err = t.look(ctx, onceHeight); err != nil {
		return err
	}
	select {
	case <-time.After(t.interval):
	case <-ctx.Done():
		return nil
	}
	now, err := t.look(ctx, onceHeight)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.Join(t.lines(now, 80, onceHeight), "\n")+"\n")
	return err
}

// onceHeight is how many lines top prints at most where its output is no terminal.
const onceHeight = 60

// Sequences of a terminal: the other screen and a hidden cursor, and back; the top left corner; the end
// of a line and of the screen erased.
const (
	screenBegin   = "\x1b[?1049h\x1b[?25l"
	screenEnd     = "\x1b[?25h\x1b[?1049l"
	screenHome    = "\x1b[H"
	screenLineEnd = "\x1b[K\r\n"
	screenRest    = "\x1b[J"
)

// show shows the view until q, a signal, or a refusal, and leaves the terminal as it was.
func (t *topView) show(ctx context.Context, stop context.CancelFunc, screen *os.File) error {
	restore := readKeys(os.Stdin, stop)
	defer restore()
	if _, err := io.WriteString(screen, screenBegin); err != nil {
		return err
	}
	defer io.WriteString(screen, screenEnd)
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	now, err := t.look(ctx, int(sizeOf(screen).Row))
	for ctx.Err() == nil && !refusesUser(err) {
		size := sizeOf(screen)
		lines := []string{"There is no answer, top tries again:"}
		if err == nil {
			lines = t.lines(now, int(size.Col), int(size.Row)-1)
		} else { // what was known is old, so it makes room for the whole error
			lines = append(lines, err.Error())
		}
		if _, err := io.WriteString(screen, screenHome+strings.Join(lines, screenLineEnd)+"\x1b[K"+screenRest); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
			continue
		case <-tick.C:
		}
		t.before = now
		now, err = t.look(ctx, int(size.Row))
	}
	return err
}

// sizeOf is the size of a terminal.
func sizeOf(screen *os.File) *unix.Winsize {
	size, err := unix.IoctlGetWinsize(int(screen.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return &unix.Winsize{Col: 80, Row: 24}
	}
	return size
}

// readKeys has the terminal pass on each key at once, unseen, and calls quit for q. Signals of keys
// (Ctrl-C) work as before. If the file is no terminal of ours, it does nothing. The returned function
// puts the terminal back.
func readKeys(keys *os.File, quit func()) (restore func()) {
	fd := int(keys.Fd())
	before, err := unix.IoctlGetTermios(fd, termiosGet)
	if err != nil || !cli.IsTerminal(keys) {
		return func() {}
	}
	raw := *before
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	raw.Cc[unix.VSUSP] = noKey // Ctrl-Z would leave the terminal as top has it
	if err := unix.IoctlSetTermios(fd, termiosSet, &raw); err != nil {
		return func() {}
	}
	go func() { // ends with the process: a read of a terminal cannot be interrupted
		key := make([]byte, 1)
		for {
			n, err := keys.Read(key)
			switch {
			case errors.Is(err, syscall.EINTR):
			case err != nil || n == 0:
				return
			case key[0] == 'q' || key[0] == 'Q':
				quit()
				return
			}
		}
	}()
	return func() { unix.IoctlSetTermios(fd, termiosSet, before) }
}

// lines is the view, each line at most width letters, at most height lines.
func (t *topView) lines(now topLook, width, height int) []string {
	out := append(t.head(now), table("MASTERS", t.masters(now), height)...)
	if t.ask.by != "" {
		out = append(out, table("LOCKS BY "+strings.ToUpper(t.ask.by), t.inOrder(now.locks.Locks), height-len(out)-2)...)
		return shape(out, width, height)
	}
	// Half of what is left for each of the two lists. A table has three lines more than it has rows, and
	// the view ends without the empty one.
	hot, held := hottest(now.locks.Locks), longestHeld(now.locks.Locks)
	most := height - len(out) - 2
	if len(held) > 0 {
		most = max(1, min(most-4, max((most-3)/2, most-3-(len(held)-1))))
	}
	out = append(out, table("MOST WAITED FOR", hot, most)...)
	out = append(out, table("HELD FOR LONGEST", held, height-len(out)-2)...)
	return shape(out, width, height)
}

// inOrder are the rows of the locks as the server has put them in order, with columns for what they are
// ordered by.
func (t *topView) inOrder(locks []lockEntry) [][]string {
	if t.ask.by == "waited" || t.ask.by == "waiters" {
		return waitedFor(locks)
	}
	return heldBy(locks)
}

// shape cuts the lines to the screen.
func shape(out []string, width, height int) []string {
	for i, line := range out {
		out[i] = clip(line, width)
	}
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out[:min(len(out), max(height, 1))]
}

// head are the lines about the whole server.
func (t *topView) head(now topLook) []string {
	rate := func(names ...string) string {
		passed := now.at.Sub(t.before.at).Seconds()
		if t.before.info == nil || passed <= 0 {
			return "-"
		}
		sum := int64(0)
		for _, name := range names {
			sum += max(0, number(now.info[name])-number(t.before.info[name]))
		}
		digits := 1
		if float64(sum) >= 10*passed { // so that the line fits
			digits = 0
		}
		return strconv.FormatFloat(float64(sum)/passed, 'f', digits, 64)
	}
	up, all := now.info["masters_up"], now.info["masters"]
	state := "locks are granted"
	if number(up) < number(now.info["quorum"]) {
		state = "NO QUORUM: no locks are granted"
	}
	lines := []string{
		fmt.Sprintf("redlockd %s at %s, up %s   %s", now.info["redlockd_version"], now.from, shortTime(time.Duration(number(now.info["uptime_in_seconds"]))*time.Second), now.at.Format("15:04:05")),
		fmt.Sprintf("masters %s of %s vote: %s", up, all, state),
		fmt.Sprintf("per second: %s granted, %s denied, %s NOQUORUM, %s extended, %s released", rate("locks_granted"), rate("locks_denied"), rate("locks_noquorum"), rate("extends_granted"), rate("unlocks_released")),
		fmt.Sprintf("now: %s leases (%s renewed), %s waiters, %s clients; lost so far: %s", now.info["leases"], now.info["bound"], now.info["waiters"],
			now.info["connected_clients"], now.info["leases_lost"]),
	}
	total := now.locks.Total
	if !t.ask.all {
		total = number(now.info["leases"])
	}
	switch n := len(now.locks.Locks); {
	case total <= int64(n) || n < t.ask.count:
	case t.ask.by != "":
		lines = append(lines, fmt.Sprintf("the first %d of %d leases by what --by %s says", n, total, t.ask.by))
	default:
		lines = append(lines, fmt.Sprintf("%d of %d leases: the longest held and waited for, most waiters, lost", n, total))
	}
	for _, r := range now.locks.Missing {
		lines = append(lines, fmt.Sprintf("missing: %s, heard %s ago", cmp.Or(r.Name, "a redlockd"), shortMs(r.SilentMs)))
	}
	return append(lines, "")
}

// masters are the rows of the table of masters. A user with a list of resources sees none.
func (t *topView) masters(now topLook) [][]string {
	if now.info["master0"] == "" {
		return nil
	}
	rows := [][]string{{"ADDRESS", "STATE", "ROUND TRIP", "QUEUED", "TIMEOUTS", "REASON"}}
	for i := 0; now.info["master"+strconv.Itoa(i)] != ""; i++ {
		m, _ := infoValue(now.info["master"+strconv.Itoa(i)]).(map[string]any)
		text := func(name string) string {
			if m[name] == nil {
				return "-"
			}
			return fmt.Sprint(m[name])
		}
		rtt := time.Duration(number(text("rtt_us"))) * time.Microsecond
		rows = append(rows, []string{shown(text("addr")), text("state"), cli.InMs(rtt), text("queued"), text("timeouts"), shown(text("reason"))})
	}
	return rows
}

// hottest are the resources that most wait for, after the one with the longest wait.
func hottest(locks []lockEntry) [][]string {
	waited := slices.DeleteFunc(slices.Clone(locks), func(e lockEntry) bool { return e.Waiters == 0 })
	slices.SortStableFunc(waited, func(a, b lockEntry) int { return cmp.Compare(b.longestWait(), a.longestWait()) })
	if len(waited) > 0 {
		slices.SortStableFunc(waited[1:], func(a, b lockEntry) int { return cmp.Compare(b.Waiters, a.Waiters) })
	}
	return waitedFor(waited)
}

// waitedFor are the rows of locks, with who waits for them.
func waitedFor(locks []lockEntry) [][]string {
	if len(locks) == 0 {
		return nil
	}
	rows := [][]string{{"WAITERS", "LONGEST", "HOLDER", "HELD", "LEFT", "RESOURCE"}}
	for i := range locks {
		rows = append(rows, append([]string{strconv.FormatInt(locks[i].Waiters, 10), tenths(locks[i].longestWait())}, locks[i].brief()...))
	}
	return rows
}

// longestWait is for how many milliseconds somebody has waited, of those that are listed.
func (e *lockEntry) longestWait() (longest int64) {
	for _, w := range e.Queue {
		longest = max(longest, w.WaitedMs)
	}
	return longest
}

// longestHeld are the locks by their age.
func longestHeld(locks []lockEntry) [][]string {
	held := slices.DeleteFunc(slices.Clone(locks), func(e lockEntry) bool { return e.Holder == nil })
	slices.SortStableFunc(held, func(a, b lockEntry) int { return cmp.Compare(b.Holder.HeldMs, a.Holder.HeldMs) })
	return heldBy(held)
}

// heldBy are the rows of locks, with who holds them.
func heldBy(locks []lockEntry) [][]string {
	if len(locks) == 0 {
		return nil
	}
	rows := [][]string{{"HOLDER", "HELD", "LEFT", "RESOURCE"}}
	for i := range locks {
		rows = append(rows, locks[i].brief())
	}
	return rows
}

// brief are HOLDER, HELD, LEFT and RESOURCE in few letters: the name of the holder, or where it has
// connected from.
func (e *lockEntry) brief() []string {
	row := e.rows()[0]
	holder := row[2]
	if holder == "-" {
		holder = row[3]
	}
	return []string{clip(holder, 24), row[5], row[6], row[0]}
}

// table are the lines of a table with a title, at most most rows of it; none if there are no rows, or
// no room for one.
func table(title string, rows [][]string, most int) []string {
	if len(rows) == 0 || most < 1 {
		return nil
	}
	if n := len(rows) - 1; n > most {
		title, rows = fmt.Sprintf("%s (%d of %d)", title, most, n), rows[:most+1]
	}
	var b strings.Builder
	cli.WriteTable(&b, rows)
	lines := append([]string{title}, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
	return append(lines, "")
}

// clip cuts a text to so many letters.
func clip(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:max(0, most-1)]) + "…"
}

// number is the number that INFO shows; 0 where it shows none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
