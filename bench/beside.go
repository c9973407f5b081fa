package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/resp"
)

// Beside: one user locks and releases 50 times a second, each time another resource, while somebody else floods the same redlockd over 40
// connections. How much longer does the user's LOCK take than a moment before, when all was quiet; and how much of its throughput does the
// flood keep that it had alone?
const (
	besideRate        = 50 // LOCKs per second of the user
	besideConnections = 40 // of the flood
	// besideQuiet and besideAlone are the times before both come together: of the user without the flood, and of the flood without the user.
	besideQuiet = 4 * time.Second
	besideAlone = 2 * time.Second
	besideBoth  = 6 * time.Second
	// besideSettle is how long the flood has been running before the user comes back or its throughput counts.
	besideSettle  = 500 * time.Millisecond
	besideTimeout = 30 * time.Second
)

// flood is what the other one sends, without end.
type flood struct {
	name string
	// command is the n-th of a connection, whose number is i.
	command func(i, n int) []string
	depth   int // commands sent at once
	// raw, in the place of commands, is sent over a new connection each time, which is read to its end, or left at once.
	raw   string
	leave bool
	// maxmemory is that of the masters, which the flood fills; "": it fills none. Within one user nothing stops it, so it is measured as another user's.
	maxmemory string
}

var floods = []flood{
	{name: "PING", depth: 1000, command: func(i, n int) []string { return []string{"PING"} }},
	{name: "LOCK of 1 KB names", depth: 64, command: func(i, n int) []string {
		return []string{"LOCK", longName(i, n), "10000"}
	}},
	{name: "UNLOCK of what is not held", depth: 64, command: func(i, n int) []string {
		return []string{"UNLOCK", "bench:flood:" + strconv.Itoa(i) + ":" + strconv.Itoa(n), "token"}
	}},
	{name: "PUBLISH of 30 KB", depth: 16, command: func(i, n int) []string { return []string{"PUBLISH", "bench:beside", besidePayload} }},
	{name: "EVAL", depth: 64, command: func(i, n int) []string {
		return []string{"EVAL", "return redis.call('get', KEYS[1])", "1", "bench:flood:" + strconv.Itoa(i)}
	}},
	{name: "LOCKS ALL", depth: 16, command: func(i, n int) []string { return []string{"LOCKS", "ALL"} }},
	{name: "refused commands", depth: 1000, command: func(i, n int) []string { return []string{"LOCK", "bench:flood", "no ttl"} }},
	{name: "EVAL that makes memory", depth: 16, command: func(i, n int) []string { return []string{"EVAL", besideScript, "0"} }},
	{name: "LOCKs that fill the masters", depth: 64, maxmemory: "64mb", command: func(i, n int) []string {
		return []string{"LOCK", longName(i, n), "60000", "TOKEN", besideToken}
	}},
	{name: "garbage", raw: strings.Repeat("\x00\xff$-1 garbage ", 1000)},
	{name: "half commands", raw: "*3\r\n$4\r\nLOCK\r\n$30000\r\n" + strings.Repeat("x", 16_000), leave: true},
}

var (
	besidePayload = strings.Repeat("p", 30_000)
	besideToken   = strings.Repeat("t", 1000)
)

// besideScript would make gigabytes if nothing stopped it.
const besideScript = "local t = {} for i = 1, 1e6 do t[i] = string.rep('x' .. i, 1e6) end return #t"

func longName(i, n int) string {
	return fmt.Sprintf("bench:flood:%d:%d:%s", i, n, strings.Repeat("n", 1000))
}

// ofAnotherUser ends the name of a way whose flood has a user of its own.
const ofAnotherUser = ", of another user"

// besideWay is one row: a flood, by a user of its own or by another connection of the same.
type besideWay struct {
	flood    int
	accounts bool
}

func (w besideWay) String() string {
	if w.accounts {
		return floods[w.flood].name + ofAnotherUser
	}
	return floods[w.flood].name
}

var besideWays = func() (ways []besideWay) {
	for _, accounts := range []bool{true, false} {
		for i := range floods {
			if accounts || floods[i].maxmemory == "" {
				ways = append(ways, besideWay{i, accounts})
			}
		}
	}
	return ways
}()

// The logins, if there are users.
const (
	besideUser  = "measured"
	besideOther = "flood"
	besideUsers = "REDLOCKD_AUTH_USERS=" + besideUser + ":secret," + besideOther + ":secret"
)

// besideRound is one cell.
type besideRound struct {
	QuietUs  percentiles `json:"quiet_us"`  // LOCK of the user alone
	BesideUs percentiles `json:"beside_us"` // and beside the flood, counted from when it was due
	Ratio50  float64     `json:"p50_ratio"`
	Ratio99  float64     `json:"p99_ratio"`

	FloodAlone  float64  `json:"flood_alone_per_sec"` // answers
	FloodBeside float64  `json:"flood_beside_per_sec"`
	FloodKept   float64  `json:"flood_kept"`  // share
	RedlockdUs  float64  `json:"redlockd_us"` // CPU per answer of the flood
	Locks       int      `json:"locks"`
	NoQuorum    int      `json:"noquorum"` // LOCKs of the user that were answered so
	Failures    failures `json:"failures"` // of the user, these among them
}

// besideRow is one way; figures are medians of the rounds, counts are sums.
type besideRow struct {
	Way string `json:"way"`
	besideRound
	Rounds []besideRound `json:"rounds"`
}

func runBeside(ctx context.Context, b *bench, r *report) error {
	cells, err := hotRounds(b, scenarioBeside, besideWays, func(i int) (besideRound, error) { return runBesideCell(ctx, b, besideWays[i]) })
	for i, rounds := range cells {
		r.Beside = append(r.Beside, besideRow{besideWays[i].String(), medians(rounds), rounds})
	}
	return err
}

// runBesideCell measures one way. The user is in this process, and the flood in another one.
func runBesideCell(ctx context.Context, b *bench, way besideWay) (r besideRound, err error) {
	program, spec := b.program, loadSpec{Scenario: scenarioBeside, Callers: besideConnections, Flood: way.flood}
	if way.accounts {
		program = program.with(besideUsers)
		program.login, spec.Login = besideUser, besideOther
	}
	c, err := startCluster(ctx, masterCount, program)
	if err != nil {
		return r, err
	}
	defer c.close()
	if most := floods[way.flood].maxmemory; most != "" {
		for _, m := range c.masters {
			if err := limitMaster(m.Addr, most); err != nil {
				return r, err
			}
		}
	}
	u, err := newBesideUser(c.proxies[0].addr, program.login)
	if err != nil {
		return r, err
	}
	defer u.close()
	quiet, err := u.alone(ctx, besideQuiet)
	if err != nil {
		return r, err
	}
	spec.Duration = besideSettle + besideAlone + besideBoth
	var other floodFigures
	g, err := startGenerator(ctx, c.spec(spec))
	if err != nil {
		return r, err
	}
	defer g.close()
	before, err := c.cpu(targetRedlockd)
	if err != nil {
		return r, err
	}
	if err := g.say(sayGo); err != nil {
		return r, err
	}
	if err := sleep(ctx, besideSettle+besideAlone); err != nil {
		return r, err
	}
	u.noQuorum = 0
	beside, err := u.lockAtRate(ctx, besideBoth)
	if err != nil {
		return r, err
	}
	if err := g.await(ctx, sayDone, childGrace); err != nil {
		return r, err
	}
	after, err := c.cpu(targetRedlockd)
	if err != nil {
		return r, err
	}
	if err := g.figures(ctx, &other); err != nil {
		return r, err
	}
	r = besideRound{
		QuietUs: percentilesOf(slices.Values(quiet)), BesideUs: percentilesOf(slices.Values(beside)),
		FloodAlone: float64(other.Alone) / besideAlone.Seconds(), FloodBeside: float64(other.Beside) / besideBoth.Seconds(),
		RedlockdUs: ratio(float64((after.redlockd - before.redlockd).Microseconds()), float64(other.All)),
		Locks:      len(beside), NoQuorum: u.noQuorum, Failures: u.log.count(),
	}
	r.Ratio50, r.Ratio99 = ratio(r.BesideUs.P50, r.QuietUs.P50), ratio(r.BesideUs.P99, r.QuietUs.P99)
	r.FloodKept = ratio(r.FloodBeside, r.FloodAlone)
	return r, nil
}

// limitMaster sets the master's maxmemory.
func limitMaster(addr, maxmemory string) error {
	m, err := dialBeside(addr, "")
	if err != nil {
		return err
	}
	defer m.Close()
	_, _, err = m.ask("CONFIG", "SET", "maxmemory", maxmemory)
	return err
}

// besideClient is one connection, without a client library that would share this process's CPU with what is measured.
type besideClient struct {
	net.Conn
	in resp.ReplyReader
}

// dialBeside connects, and logs in if there is a login.
func dialBeside(addr, login string) (*besideClient, error) {
	conn, err := net.DialTimeout("tcp", addr, besideTimeout)
	if err != nil {
		return nil, err
	}
	c := &besideClient{Conn: conn}
	if login == "" {
		return c, nil
	}
	if _, _, err := c.ask("AUTH", login, "secret"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ask sends a command and reads its reply: the text of its first element, and whether it was null.
func (c *besideClient) ask(words ...string) (text string, null bool, err error) {
	c.SetDeadline(time.Now().Add(besideTimeout))
	if _, err := c.Write(appendCommand(nil, words...)); err != nil {
		return "", false, err
	}
	return c.reply()
}

// isBroken tells an error of the connection from one that redlockd has replied.
func isBroken(err error) bool {
	var replied repliedError
	return err != nil && !errors.As(err, &replied)
}

// repliedError is an error reply.
type repliedError string

func (e repliedError) Error() string { return string(e) }

// reply reads one reply with all its elements.
func (c *besideClient) reply() (text string, null bool, err error) {
	r, err := c.in.ReadReply(c)
	switch {
	case err != nil:
		return "", false, err
	case r.Kind == '-':
		return "", false, repliedError(r.Text)
	case r.Kind != '*' || r.Null:
		return string(r.Text), r.Null, nil
	}
	for i := range r.N {
		element, _, err := c.reply()
		if err != nil {
			return "", false, err
		}
		if i == 0 {
			text = element
		}
	}
	return text, false, nil
}

func appendCommand(b []byte, words ...string) []byte {
	b = resp.AppendArray(b, len(words))
	for _, word := range words {
		b = resp.AppendBulkString(b, word)
	}
	return b
}

// besideUserConn is the user who is measured.
type besideUserConn struct {
	*besideClient
	timer    *sharpTimer
	log      failureLog
	locks    int
	noQuorum int
}

func newBesideUser(addr, login string) (*besideUserConn, error) {
	c, err := dialBeside(addr, login)
	if err != nil {
		return nil, fmt.Errorf("connect the user: %w", err)
	}
	timer, err := newSharpTimer()
	if err != nil {
		c.Close()
		return nil, err
	}
	return &besideUserConn{besideClient: c, timer: timer}, nil
}

func (u *besideUserConn) close() {
	u.timer.close()
	u.besideClient.Close()
}

// alone warms up, and then is lockAtRate.
func (u *besideUserConn) alone(ctx context.Context, duration time.Duration) (us []uint32, err error) {
	if _, err := u.lockAtRate(ctx, besideSettle); err != nil {
		return nil, err
	}
	return u.lockAtRate(ctx, duration)
}

// lockAtRate locks and releases besideRate times a second, and returns how long each LOCK took from when it was due. An error ends the
// cell: the connection is of no more use.
func (u *besideUserConn) lockAtRate(ctx context.Context, duration time.Duration) (us []uint32, err error) {
	began := time.Now()
	for n := range int(duration.Seconds() * besideRate) {
		due := began.Add(time.Duration(n) * time.Second / besideRate)
		if err := u.timer.until(due); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		u.locks++
		resource := "bench:beside:" + strconv.Itoa(u.locks)
		token, null, err := u.ask("LOCK", resource, strconv.FormatInt(lockTTL.Milliseconds(), 10))
		took := time.Since(due)
		switch {
		case err != nil && strings.HasPrefix(err.Error(), "NOQUORUM"):
			u.noQuorum++
			u.log.add(err)
			continue
		case err != nil:
			return nil, fmt.Errorf("LOCK of the user: %w", err)
		case null:
			return nil, errGaveUp
		}
		us = append(us, uint32(took.Microseconds()))
		if _, _, err := u.ask("UNLOCK", resource, token); err != nil {
			return nil, fmt.Errorf("UNLOCK of the user: %w", err)
		}
	}
	return us, nil
}

// floodFigures are the answers that the flood got, in all and in its two times.
type floodFigures struct {
	All    int64 `json:"all"`
	Alone  int64 `json:"alone"`
	Beside int64 `json:"beside"`
}

// serveFlood is the load generator's part.
func serveFlood(p *parent, spec loadSpec) error {
	f := floods[spec.Flood]
	var (
		answers atomic.Int64
		over    atomic.Bool
		running sync.WaitGroup
		first   atomic.Pointer[error]
	)
	var clients []*besideClient
	for range spec.Callers {
		c, err := dialBeside(spec.Redlockd, spec.Login)
		if err != nil {
			return err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	if err := p.ready(); err != nil {
		return err
	}
	for i, c := range clients {
		running.Go(func() {
			if err := f.run(i, c, spec.Redlockd, &over, &answers); err != nil && !over.Load() {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	var figures floodFigures
	time.Sleep(besideSettle)
	settled := answers.Load()
	time.Sleep(besideAlone)
	figures.Alone = answers.Load() - settled
	time.Sleep(spec.Duration - besideSettle - besideAlone)
	figures.All = answers.Load()
	figures.Beside = figures.All - settled - figures.Alone
	over.Store(true)
	for _, c := range clients {
		c.Close()
	}
	running.Wait()
	if err := first.Load(); err != nil {
		return fmt.Errorf("the flood of %s: %w", f.name, *err)
	}
	p.done()
	return json.NewEncoder(p.out).Encode(figures)
}

// run sends until it is over. Replies that are errors are answers, too.
func (f *flood) run(i int, c *besideClient, addr string, over *atomic.Bool, answers *atomic.Int64) error {
	if f.command == nil {
		return f.runRaw(addr, over, answers)
	}
	for n := 0; !over.Load(); {
		var b []byte
		for range f.depth {
			b = appendCommand(b, f.command(i, n)...)
			n++
		}
		wrote := make(chan error, 1)
		go func() { // the server may want to have its replies read before it reads all of it
			_, err := c.Write(b)
			wrote <- err
		}()
		for range f.depth {
			if _, _, err := c.reply(); isBroken(err) {
				return err
			}
			answers.Add(1)
		}
		if err := <-wrote; err != nil {
			return err
		}
	}
	return nil
}

func (f *flood) runRaw(addr string, over *atomic.Bool, answers *atomic.Int64) error {
	for !over.Load() {
		c, err := net.DialTimeout("tcp", addr, besideTimeout)
		if err != nil {
			return err
		}
		io.WriteString(c, f.raw) // the server may have left
		if !f.leave {
			c.SetDeadline(time.Now().Add(besideTimeout))
			io.Copy(io.Discard, c)
		}
		c.Close()
		answers.Add(1)
	}
	return nil
}

// besideSVG has more bars in a panel than the drawings of targets.
const besideSVG = "beside.svg"

// besidePanels has a row for floods of another user and one for those of the same, a column per percentile.
func besidePanels(rows []besideRow) (all panels) {
	for _, group := range byLoad(rows, func(r besideRow) bool { return strings.HasSuffix(r.Way, ofAnotherUser) }) {
		title := "by the same user"
		if strings.HasSuffix(group[0].Way, ofAnotherUser) {
			title = "by another user"
		}
		names := column(group, func(r besideRow) string { return strings.TrimSuffix(r.Way, ofAnotherUser) })
		all = append(all, bars{title: "Flood " + title, names: names}.sideBySide(column(names, func(string) color.Color { return colorOf(targetRedlockd) }),
			figure{"LOCK p50 ÷ quiet", column(group, func(r besideRow) float64 { return r.Ratio50 })},
			figure{"LOCK p99 ÷ quiet", column(group, func(r besideRow) float64 { return r.Ratio99 })}))
	}
	return all
}

func besideTable(rows []besideRow) table {
	t := table{
		title: fmt.Sprintf("Beside a flood: one user's LOCK, %d a second, alone and beside somebody who floods over %d connections", besideRate, besideConnections),
		note: "Medians of the rounds. Ratios: beside ÷ alone, in the same round. Answers: of the flood, a second; of garbage and half commands, connections. " +
			"CPU µs: of redlockd, per answer.",
		head: []string{"flood of", "alone p50 µs", "p99", "beside p50 µs", "p99", "max", "p50 ×", "p99 ×", "NOQUORUM", "locks",
			"answers alone", "beside", "kept", "CPU redlockd"},
		left:   1,
		joined: true,
	}
	for _, r := range rows {
		t.add(r.Way, r.QuietUs.P50, r.QuietUs.P99, r.BesideUs.P50, r.BesideUs.P99, r.BesideUs.Max, fmt.Sprintf("%.1f", r.Ratio50), fmt.Sprintf("%.1f", r.Ratio99),
			r.NoQuorum, r.Locks, r.FloodAlone, r.FloodBeside, fmt.Sprintf("%.0f %%", 100*r.FloodKept), r.RedlockdUs)
	}
	return t
}
