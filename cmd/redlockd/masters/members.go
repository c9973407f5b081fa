package masters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// memberChanges are the words with which a change begins.
var memberChanges = []string{"replace", "add", "remove", "set", "refound"}

const membersForm = "redlockd members [flags] [replace SEAT ADDR | add NAME ADDR | remove SEAT | set max_ttl DURATION | refound]"

var Members = cli.Command{Name: "members", Summary: "show who the masters are, replace, add or remove one, or set max_ttl", Audience: cli.ForMasters,
	Run: runMembers, Form: membersForm, Words: memberChanges,
	Flags: []cli.Flag{
		{Name: "dry-run", Usage: "say what a command would change, and change nothing"},
		{Name: "yes", Usage: "refound without asking"},
		{Name: "no-wait", Usage: "do not wait until a change is done: any redlockd finishes it"},
		{Name: "json", Usage: "print the table as JSON"},
	},
	Help: `Usage: ` + membersForm + `

Shows who the masters are and what holds for them: the membership, which the masters keep themselves. Or changes it,
while locks are granted, without a moment without a quorum. It asks the masters itself, and needs no server.

  replace SEAT ADDR      the master at ADDR takes the seat, in the place of the one that has it, which may be dead or alive
  add NAME ADDR          a further seat, for the master at ADDR
  remove SEAT            the seat loses its vote, and is removed after the wait; add and remove in pairs, so that the number
                         of seats is odd again
  set max_ttl DURATION   the longest TTL that may be asked for. The ceiling, for as long as locks may run, follows by itself
  refound                founds the membership anew with the masters of the configuration, where a majority is gone for good

SEAT is the seat's name, or the address that its master has now. A seat keeps its name for life: if none was
configured, the address of its first master. ADDR is host:port, or the path of a unix socket. The new master must be
fit to vote (see redlockd check), hold no key and belong to no other fleet. It gets every command at once, and is a
learner: it votes when a redlockd has given it what a quorum of the voters remember, which takes a second or less, or,
where that is not possible, after the wait: somewhat longer than max_ttl. The same goes for a master that has
restarted. Lines below the table say how far that is, or what stands in the way. Commands say what they change, and
then wait until it is done. They can be interrupted: any redlockd over these masters finishes what was begun, and the
same command again shows how far it is. All running redlockds follow by themselves.

ADDR may end with /N for database N; else it is the db of the configuration. A password or TLS of the seat's own
[[masters]] table is used at ADDR by this command only. A redlockd uses it at the address of that table, and what
[master] says elsewhere: write ADDR into its configuration too, and restart it.

What would leave fewer masters that vote and are reached than a lock needs is refused, and nothing is changed. A new seat
counts at once and votes later, so until then one master fewer may fail where the number of votes that are needed grows.
--dry-run says what would be changed or refused, and writes nothing on a new master; so it alone does not find that the
memory of that one is full.

The columns: since which version of the membership the seat is as it is; what is left until it votes or is removed;
whether a master answers there; what it remembers (the beginning of its run_id, and a name that changes when it forgets);
why it does not count here.

The masters and max_ttl in the configuration lead to the membership, and found the first one. Later they count only if all
masters forget while no redlockd runs. Where they differ, the table and each change end with the lines for config.toml.

If a majority of the masters is lost, nothing of that can be changed. Start them again at their addresses: they may be
empty, and a redlockd then founds the membership anew. If their machines are gone for good, name the masters that are to be
the fleet from now on, those that are left and new, empty ones: redlockd members refound --masters LIST. It first says who
is a member then, who is given up, and for how long no lock is granted; and asks, unless --yes is given. It refuses, and
changes nothing, if a majority of the old members can be reached, if fewer than a majority of the new ones can, or if they
belong to two fleets. Interrupted, it can be repeated. The machines that are given up must never answer again.
A signal ends the wait for the end of a change, which any redlockd finishes.

Exit codes: 0 done; 1 not done, and nothing changed unless it says so; 2 the command line or the configuration is wrong; 128 + n signal n.
`}

// membersKnownIn bounds, in units of connect_timeout, how long the masters may take to show a
// membership, and to choose the next.
const (
	membersKnownIn  = 5
	membersChangeIn = 30
	// membersLook is the pause between two looks at what the client knows.
	membersLook = 20 * time.Millisecond
	// membersClocks bounds how long the table waits for what others say of the masters' clocks.
	membersClocks = 100 * membersLook
	// membersCopies bounds how long the table waits for what is known of copies.
	membersCopies = 10 * membersLook
	// membersTell is the pause between two lines about a change that takes long.
	membersTell = 10 * time.Second
)

// memberCommand is the command line of members.
type memberCommand struct {
	*cli.Call
	change redlock.MemberChange
	set    bool // a change is asked for
	anew   bool // refound is
	client *redlock.Client
}

func runMembers(call *cli.Call) error {
	m := memberCommand{Call: call}
	if err := m.readOperands(); err != nil {
		return call.Misused("%w", err)
	}
	if err := call.NeedMasters(); err != nil {
		return err
	}
	c := call.Settings
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if m.anew {
		return m.refound(c, signals)
	}
	if err := m.open(c, signals); err != nil {
		return err
	}
	defer func() { m.close() }()
	if err := m.findSeat(m.client.Membership()); err != nil {
		return fmt.Errorf("members: nothing was changed: %w", err)
	}
	if m.lendPassword(c) {
		m.close()
		if err := m.open(c, signals); err != nil {
			return err
		}
	}
	if m.set {
		return m.make(c, signals)
	}
	// The table tells of each master whether it counts, or why not, and of each learner whether it is
	// copied to.
	await(c.Engine.ConnectTimeout, func() bool {
		return !slices.ContainsFunc(m.client.Masters(), func(s redlock.MasterStatus) bool { return s.State == redlock.MasterDown && s.Reason == "connecting" })
	})
	await(membersClocks, func() bool { // other redlockds say with their heartbeats that a clock is in step
		return !slices.ContainsFunc(m.client.Masters(), func(s redlock.MasterStatus) bool { return s.State == redlock.MasterDoubted })
	})
	await(membersCopies, func() bool {
		return !slices.ContainsFunc(m.client.Membership().Seats, func(s redlock.Seat) bool { return s.State == redlock.SeatLearner && s.Copying == nil })
	})
	return m.print(m.client.Membership(), c)
}

// open makes the client, and waits until it knows the membership.
func (m *memberCommand) open(c *config.Config, signals <-chan os.Signal) (err error) {
	if m.client, err = redlock.Open(c.Engine); err != nil {
		return err
	}
	if err = m.awaitMembership(membersKnownIn*c.Engine.ConnectTimeout, signals); err != nil {
		m.close()
		return fmt.Errorf("members: %w", err)
	}
	return nil
}

// close ends the client, which holds nothing.
func (m *memberCommand) close() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	m.client.Close(now)
}

// findSeat has a change name the seat that the operator means, by its name or by its present address. A
// replacement that is repeated means the seat that has the new address already. What is no seat stays,
// for the refusal.
func (m *memberCommand) findSeat(now redlock.Membership) error {
	operand := &m.change.Replace
	if m.change.Remove != "" {
		operand = &m.change.Remove
	}
	called := slices.IndexFunc(now.Seats, func(s redlock.Seat) bool { return s.Name == *operand })
	at := func(addr string) int {
		return slices.IndexFunc(now.Seats, func(s redlock.Seat) bool { return s.Addr == addr })
	}
	switch there := at(*operand); {
	case called >= 0 && there >= 0 && called != there:
		return fmt.Errorf("%s is the name of the seat at %s, and the address of the seat %s: name the address of the one, or the name of the other",
			*operand, now.Seats[called].Addr, now.Seats[there].Name)
	case called >= 0:
	case there >= 0:
		*operand = now.Seats[there].Name
	case m.change.Replace != "" && at(m.change.Addr) >= 0:
		*operand = now.Seats[at(m.change.Addr)].Name
	}
	return nil
}

// lendPassword has the password that the settings have for the seat go to the new address, too. It
// tells whether they have one, which takes another client.
func (m *memberCommand) lendPassword(c *config.Config) bool {
	name, addr := m.change.Replace+m.change.Add, ""
	for _, s := range m.client.Membership().Seats {
		if s.Name == name {
			addr, _, _ = redlock.SplitAddr(s.Addr)
		}
	}
	to, _, _ := redlock.SplitAddr(m.change.Addr)
	of := func(one redlock.Master) bool { return one.SeatName() == name || one.Name == "" && one.Addr == addr }
	at := slices.IndexFunc(c.Engine.Masters, of)
	named := slices.ContainsFunc(c.Engine.Masters, func(one redlock.Master) bool { return one.Addr == to })
	if to == "" || at < 0 || named {
		return false
	}
	one, all := &c.Engine.Masters[at], c.Engine.Common
	one.NewAddr = to
	return one.Username != all.Username || one.Password != all.Password || one.TLS != all.TLS
}

// readOperands reads the change that is asked for.
func (m *memberCommand) readOperands() error {
	if len(m.Args) == 0 {
		if m.On("dry-run") || m.On("no-wait") || m.On("yes") {
			return errors.New("--dry-run and --no-wait are for changes, --yes for refound: " + membersForm)
		}
		return nil
	}
	m.set = true
	verb, rest := m.Args[0], m.Args[1:]
	verbs := map[string]string{"replace": "SEAT ADDR", "add": "NAME ADDR", "remove": "SEAT", "set": "max_ttl DURATION", "refound": ""}
	form, known := verbs[verb]
	switch {
	case !known:
		return fmt.Errorf("unknown change %q%s: %s", verb, config.DidYouMean(verb, memberChanges), membersForm)
	case verb == "refound" && (len(rest) > 0 || m.On("no-wait")):
		return errors.New("refound takes its masters from --masters or config.toml, and never waits: redlockd members refound [--dry-run | --yes]")
	case verb != "refound" && m.On("yes"):
		return errors.New("--yes is for refound: the other changes never ask")
	case len(rest) != len(strings.Fields(form)) || slices.Contains(rest, ""):
		return fmt.Errorf("%s needs %s: redlockd members %s %s", verb, form, verb, form)
	case m.On("json"):
		return errors.New("--json is for the table, without a change")
	}
	switch verb {
	case "refound":
		m.anew = true
	case "replace":
		m.change = redlock.MemberChange{Replace: rest[0], Addr: rest[1]}
	case "add":
		m.change = redlock.MemberChange{Add: rest[0], Addr: rest[1]}
	case "remove":
		m.change = redlock.MemberChange{Remove: rest[0]}
	case "set":
		if rest[0] != "max_ttl" {
			return fmt.Errorf("the membership has no setting %q: max_ttl is the one that it has", rest[0])
		}
		ttl, err := config.ParseDuration(rest[1])
		if err == nil && ttl <= 0 {
			err = fmt.Errorf("%s is no TTL", rest[1])
		}
		if err != nil {
			return fmt.Errorf("max_ttl: %w", err)
		}
		m.change = redlock.MemberChange{SetMaxTTL: ttl}
	}
	return nil
}

// awaitMembership waits until the masters have shown a membership, and no change that is not finished.
// One that cannot be finished in time is no error: what is in force until then is known.
func (m *memberCommand) awaitMembership(atMost time.Duration, signals <-chan os.Signal) error {
	for deadline := time.Now().Add(atMost); ; {
		now := m.client.Membership()
		if now.Settled {
			return nil
		}
		select {
		case <-time.After(membersLook):
		case sig := <-signals:
			return fmt.Errorf("stopped by %v: nothing was changed", sig)
		}
		switch {
		case time.Now().Before(deadline):
		case now.Known:
			return nil
		default:
			return fmt.Errorf("the masters show no membership within %s: %s. redlockd check says what is wrong with each; if a majority is lost for good, redlockd members refound founds it anew with other masters",
				config.FormatDuration(atMost), cmp.Or(now.Problem, "they do not answer in time"))
		}
	}
}

// await looks until done says so, or the time is over.
func await(atMost time.Duration, done func() bool) {
	for deadline := time.Now().Add(atMost); !done() && time.Now().Before(deadline); time.Sleep(membersLook) {
	}
}

// make has the masters choose the change, and waits until it is done.
func (m *memberCommand) make(c *config.Config, signals <-chan os.Signal) error {
	dryRun := m.On("dry-run")
	ctx, cancel := context.WithTimeout(context.Background(), membersChangeIn*c.Engine.ConnectTimeout)
	defer cancel()
	go func() {
		select {
		case sig := <-signals:
			cancel()
			fmt.Fprintf(m.Stderr, "redlockd: stopped by %v: redlockd members shows whether the change was made\n", sig)
		case <-ctx.Done():
		}
	}()
	what, err := m.client.ChangeMembers(ctx, m.change, dryRun)
	cancel()
	switch {
	case err != nil:
		return fmt.Errorf("members: %w", err)
	case dryRun && what == "":
		fmt.Fprintln(m.Stdout, "Nothing would change: it is so already.")
		return nil
	case dryRun:
		fmt.Fprintf(m.Stdout, "Would change: %s.\n", what)
		return nil
	case what == "":
		fmt.Fprintln(m.Stdout, "Nothing to change: it is so already.")
	default:
		fmt.Fprintf(m.Stdout, "Changed: %s.\n", what)
	}
	if err := m.follow(signals); err != nil {
		return err
	}
	return m.printSettings(m.client.Membership(), c)
}

// follow tells how far the change is until it is done.
func (m *memberCommand) follow(signals <-chan os.Signal) error {
	var told time.Time
	for {
		now := m.client.Membership()
		rest := m.rest(now)
		switch {
		case rest == "":
			fmt.Fprintf(m.Stdout, "Done.%s\n", m.farewell())
			return nil
		case m.On("no-wait"):
			fmt.Fprintf(m.Stdout, "Not waiting: %s. Any redlockd over these masters finishes it.\n", rest)
			return nil
		case time.Since(told) >= membersTell:
			told = time.Now()
			if now.Problem != "" {
				rest += "; " + now.Problem
			}
			fmt.Fprintf(m.Stderr, "redlockd: %s\n", rest)
		}
		select {
		case <-time.After(membersLook):
		case sig := <-signals:
			fmt.Fprintf(m.Stderr, "redlockd: the change is made, and %s. Any redlockd over these masters finishes it; the same command again shows how far it is\n", rest)
			number, _ := sig.(syscall.Signal)
			return cli.ExitCode(cli.ExitSignal + int(number))
		}
	}
}

// rest is what is still to come of the change; "": nothing.
func (m *memberCommand) rest(now redlock.Membership) string {
	if m.change.SetMaxTTL != 0 {
		if !now.Lowering || m.change.SetMaxTTL > now.Ceiling { // it is no wait for the change
			return ""
		}
		return "the wait follows in " + roundSeconds(now.WaitLeft)
	}
	name := cmp.Or(m.change.Replace, m.change.Add, m.change.Remove)
	at := slices.IndexFunc(now.Seats, func(s redlock.Seat) bool { return s.Name == name })
	switch removing := m.change.Remove != ""; {
	case at < 0:
		return ""
	case removing:
		return fmt.Sprintf("%s is removed in %s", name, roundSeconds(now.Seats[at].Left))
	case now.Seats[at].State == redlock.SeatVoter:
		return ""
	default:
		return untilItVotes(now.Seats[at])
	}
}

// untilItVotes says when a learner votes, and what it depends on.
func untilItVotes(s redlock.Seat) string {
	left := roundSeconds(s.Left)
	switch c := s.Copying; {
	case c == nil:
		return fmt.Sprintf("%s votes when it was given what the others remember, or in %s", s.Name, left)
	case c.Problem != "":
		return fmt.Sprintf("%s votes in %s; nothing is copied to it at present: %s", s.Name, left, c.Problem)
	default:
		return fmt.Sprintf("%s is being given what %s remember: %d locks so far (%d %%); it votes when that is done, or in %s",
			s.Name, strings.ReplaceAll(c.From, ",", ", "), c.Given, c.Percent, left)
	}
}

// farewell is what is left for the operator to do.
func (m *memberCommand) farewell() string {
	switch {
	case m.change.Remove != "":
		return fmt.Sprintf(" %s is no member: switch it off, so that nobody takes it for one.", m.change.Remove)
	case m.change.Replace != "":
		return " If the master that had the seat still runs, switch it off."
	}
	return ""
}

// roundSeconds shows what is left, never as less than it is.
func roundSeconds(d time.Duration) string {
	return config.FormatDuration((d + time.Second - 1).Truncate(time.Second))
}

// print writes the table.
func (m *memberCommand) print(now redlock.Membership, c *config.Config) error {
	if m.On("json") {
		return printMembersJSON(m.Stdout, now)
	}
	var b strings.Builder
	rows := [][]string{{"ADDRESS", "SEAT", "STATE", "SINCE", "WAITS", "REACHED", "MEMORY", "REASON"}}
	for _, s := range now.Seats {
		left := "-"
		if s.Left > 0 {
			left = roundSeconds(s.Left)
		}
		reached := "no"
		if s.Reached {
			reached = "yes"
		}
		rows = append(rows, []string{s.Addr, s.Name, string(s.State), strconv.FormatInt(s.Since, 10), left, reached, cmp.Or(shortMemory(s.Memory), "-"), cmp.Or(s.Reason, "-")})
	}
	cli.WriteTable(&b, rows)
	fmt.Fprintf(&b, "\nVersion %d of lineage %s: %s; max_ttl %s, ceiling %s, wait %s.\n", now.Version, now.Lineage,
		now.Standing(), config.FormatDuration(now.MaxTTL), config.FormatDuration(now.Ceiling), config.FormatDuration(now.Wait))
	if now.RaisedBy != "" {
		fmt.Fprintf(&b, "The ceiling was raised last when %s. It falls again when nothing so long was asked for during one wait.\n", now.RaisedBy)
	}
	if without := now.WithoutVote(); without != "" {
		fmt.Fprintf(&b, "Without a vote now: %s.\n", without)
	}
	if now.Lowering {
		fmt.Fprintf(&b, "The wait is longer than the ceiling needs, because longer locks may still live: it is lowered in %s.\n", roundSeconds(now.WaitLeft))
	}
	for _, s := range now.Seats {
		if s.State == redlock.SeatLearner && s.Copying != nil && now.Voters() > 0 { // without voters nobody has anything to give
			fmt.Fprintf(&b, "%s.\n", untilItVotes(s))
		}
	}
	if now.Problem != "" {
		fmt.Fprintf(&b, "Problem: %s.\n", now.Problem)
	}
	if _, err := io.WriteString(m.Stdout, b.String()); err != nil {
		return err
	}
	return m.printSettings(now, c)
}

// shortMemory names a memory in a table: the beginnings of its process's run_id and of what it is
// called beyond that.
func shortMemory(memory string) string {
	runID, name, _ := strings.Cut(memory, ":")
	return runID[:min(8, len(runID))] + strings.TrimSuffix(":"+name[:min(8, len(name))], ":")
}

// printSettings writes the lines for config.toml, if the settings differ from the membership.
func (m *memberCommand) printSettings(now redlock.Membership, c *config.Config) error {
	if now.Differences == "" {
		return nil
	}
	_, err := fmt.Fprintf(m.Stdout, "\nThe settings differ from the membership, which counts: %s.\n%s", now.Differences, settingsOf(now, c.Engine))
	return err
}

// settingsOf are the lines of config.toml for the membership. Users, passwords and TLS stay as they are
// there. The file must name an odd number of masters, and none that has not voted: its address may be
// wrong. Without a database, an address there means db. The names of seats are of use where the settings
// have names.
func settingsOf(now redlock.Membership, o redlock.Options) string {
	var b strings.Builder
	db := o.Common.DB
	tables := slices.ContainsFunc(o.Masters, func(one redlock.Master) bool { return one.Name != "" })
	seats := slices.DeleteFunc(slices.Clone(now.Seats), func(s redlock.Seat) bool { return s.State == redlock.SeatLeaving })
	var without []string // a vote
	for _, s := range seats {
		if s.State == redlock.SeatLearner || s.State == redlock.SeatVacant {
			without = append(without, s.Name)
		}
	}
	switch {
	case now.ToDo != "":
		return "To do: " + now.ToDo + ".\n"
	case len(without) > 0:
		return "The lines for config.toml follow when all seats vote that stay: not yet " + cli.ListOf(without) + ".\n"
	}
	if len(seats)%2 == 0 {
		return fmt.Sprintf("The lines for config.toml follow when the number of seats is odd: there are %d. Add or remove one.\n", len(seats))
	}
	when := "now"
	if now.Lowering { // a founding would not wait for the longer locks
		when = "in " + roundSeconds(now.WaitLeft) + ", when longer locks have ended"
	}
	fmt.Fprintf(&b, "Write this into config.toml everywhere %s. The file counts again if all masters forget while no redlockd runs:\n\n", when)
	if !tables {
		var addrs []string
		for _, s := range seats {
			addr, in, _ := redlock.SplitAddr(s.Addr)
			if in != db {
				addr += fmt.Sprint("/", in)
			}
			addrs = append(addrs, addr)
		}
		fmt.Fprintf(&b, "masters = %s\n", config.TOML(addrs))
	}
	if o.MaxTTL != now.MaxTTL {
		fmt.Fprintf(&b, "[locks]\nmax_ttl = %s\n", config.TOML(config.FormatDuration(now.MaxTTL)))
	}
	if tables {
		for _, s := range seats {
			addr, in, _ := redlock.SplitAddr(s.Addr)
			fmt.Fprintf(&b, "[[masters]]\nname = %s\naddr = %s\n", config.TOML(s.Name), config.TOML(addr))
			if in != db {
				fmt.Fprintf(&b, "db = %d\n", in)
			}
		}
	}
	return b.String()
}

// MembersTable is the table as JSON. Times are in milliseconds, as the names say.
type MembersTable struct {
	Version     int64         `json:"version"`
	Lineage     string        `json:"lineage"`
	MaxTTLMs    int64         `json:"max_ttl_ms"`
	CeilingMs   int64         `json:"ceiling_ms"`
	RaisedBy    string        `json:"ceiling_raised_by,omitempty"`
	WaitMs      int64         `json:"wait_ms"`
	WaitLeftMs  int64         `json:"wait_left_ms"` // 0: it is as the ceiling needs it
	Voters      int           `json:"voters"`
	Unreached   int           `json:"unreached"` // of the voters
	Needed      int           `json:"needed"`
	Voting      int           `json:"voting"`   // seats whose votes count now
	MayFail     int           `json:"may_fail"` // of those, while locks are still granted
	Seats       []memberEntry `json:"seats"`
	Problem     string        `json:"problem,omitempty"`
	Differences string        `json:"differences,omitempty"`
}

type memberEntry struct {
	Seat  string            `json:"seat"`
	Addr  string            `json:"addr"`
	State redlock.SeatState `json:"state"`
	// Reached: a master answers there, whether it votes or not.
	Reached bool   `json:"reached"`
	Memory  string `json:"memory,omitempty"`
	Since   int64  `json:"since"`
	LeftMs  int64  `json:"left_ms"`
	// Copying is of learners alone.
	Copying *copyEntry `json:"copying,omitempty"`
	Reason  string     `json:"reason,omitempty"`
}

// copyEntry is how far a learner has got what others remember, or why it gets nothing.
type copyEntry struct {
	From    []string `json:"from,omitempty"`
	Locks   int64    `json:"locks"`
	Percent int      `json:"percent"`
	Problem string   `json:"problem,omitempty"`
}

func printMembersJSON(w io.Writer, now redlock.Membership) error {
	table := MembersTable{Version: now.Version, Lineage: now.Lineage, MaxTTLMs: now.MaxTTL.Milliseconds(),
		CeilingMs: now.Ceiling.Milliseconds(), RaisedBy: now.RaisedBy, WaitMs: now.Wait.Milliseconds(),
		WaitLeftMs: now.WaitLeft.Milliseconds(), Voters: now.Voters(), Unreached: now.Unreached(), Needed: now.Needed,
		Voting: now.Standing().Voting, MayFail: now.Standing().MayFail(), Problem: now.Problem, Differences: now.Differences}
	for _, s := range now.Seats {
		entry := memberEntry{Seat: s.Name, Addr: s.Addr, State: s.State, Reached: s.Reached, Memory: s.Memory, Since: s.Since,
			LeftMs: s.Left.Milliseconds(), Reason: s.Reason}
		if c := s.Copying; c != nil {
			entry.Copying = &copyEntry{Locks: c.Given, Percent: c.Percent, Problem: c.Problem}
			if c.From != "" {
				entry.Copying.From = strings.Split(c.From, ",")
			}
		}
		table.Seats = append(table.Seats, entry)
	}
	return cli.PrintJSON(w, table)
}
