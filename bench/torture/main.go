// Command torture runs redlockd as users do, under faults, and judges what its clients saw: 5 real masters, 3 redlockds and clients in Go, Python,
// Node and Java, each in a network namespace of its own, for as long as asked.
//
//	go run -C bench ./torture --help
//
//	workload.go ── lines of JSON ──> client.go: client_go.go, client.py, client.js, Client.java      sessions take locks, and use what they guard
//	                                      │ RESP
//	                                 hosts_linux.go: the switch                          loses, delays, cuts
//	                                      │
//	                                 cluster.go: 3 × redlockd ─> 5 × redis-server        killed, frozen, flushed, clocks stepped: faults.go
//	                                      │                                              replaced, added, lost for good: membership.go
//	                                 the operator                                        ends locks of others: force.go
//	history.go ─> check.go           no two believed to hold at once; fences grow; slots are not exceeded
//	           └> register.go        porcupine: what holders read and wrote could have been one after another
//	report.go, timeline.go           report.md, timeline.svg; exit code 1 if anything was violated
//
// # Caveats
//
// All runs on one machine with one clock, which nobody steps: clients tell times by CLOCK_MONOTONIC, and only what masters and redlockds take for
// the time is moved (program_clock.go).
// The seed gives the order of the faults. A run of the same seed is similar, not the same: processes have their own time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// options are the flags, checked.
type options struct {
	length    time.Duration
	seed      uint64
	out       string
	every     time.Duration
	sessions  int
	languages []string
	pace      time.Duration
	redlockd  string
	only      string
	planted   *planted // nil: none
	faults    []fault  // those that only names
}

func main() {
	logging.Disable() // go-redis logs what it also returns
	if len(os.Args) > 1 && os.Args[1] == clientCommand {
		if err := runGoClient(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "torture:", err)
			os.Exit(1)
		}
		return
	}
	o, err := parseOptions(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, o, os.Stderr)
	if err == nil {
		err = r.write(o.out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
	fmt.Printf("%s\nreport: %s\n", r.verdict(), filepath.Join(o.out, reportFile))
	if !r.good() {
		os.Exit(1)
	}
}

const usage = `Runs 5 redis-servers, 3 redlockds and clients in Go, Python, Node and Java in network namespaces under random faults, and judges what
the clients saw. It needs Linux, root, and what make tools and make bench-libraries install. Ctrl-C ends it early, with its report.

usage: go run -C bench ./torture [flags]

flags:
`

func parseOptions(args []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&o.length, "for", 10*time.Minute, "how long there are faults; at least 1s")
	flags.Uint64Var(&o.seed, "seed", 0, "the order of the faults and of what clients do; 0: by chance")
	flags.StringVar(&o.out, "out", "local/torture", "directory for report.md and timeline.svg; those that are committed are in results/torture")
	flags.DurationVar(&o.every, "every", 4*time.Second, "mean time from one fault to the next; at least 100ms")
	flags.IntVar(&o.sessions, "sessions", 8, "threads of each client program; 1 to 100")
	flags.DurationVar(&o.pace, "pace", 100*time.Millisecond, "mean pause of a session between two locks; at least 1ms")
	names := flags.String("languages", strings.Join(languages, ","), "of the client programs, comma-separated")
	flags.StringVar(&o.redlockd, "redlockd", "", "the program to torture, without faults of its clocks; empty: build it from this repository")
	plant := flags.String("planted", "", "torture a redlockd with this bug, and fail unless two holders are found: "+strings.Join(plantNames(), ", "))
	flags.StringVar(&o.only, "only", "", "only faults with one of these words in their name, comma-separated; empty: all")
	if err = flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		flags.SetOutput(out)
		flags.PrintDefaults()
	}
	if err != nil {
		return o, err
	}
	for _, f := range faults {
		if slices.ContainsFunc(strings.Split(o.only, ","), func(word string) bool { return strings.Contains(f.name, word) }) {
			o.faults = append(o.faults, f)
		}
	}
	o.languages = strings.Split(*names, ",")
	for i, name := range o.languages {
		if !slices.Contains(languages, name) || slices.Contains(o.languages[:i], name) {
			return o, fmt.Errorf("--languages %q: want some of %s, each once", *names, strings.Join(languages, ","))
		}
	}
	for _, p := range plants {
		if p.name == *plant {
			o.planted = &p
		}
	}
	switch {
	case *plant != "" && o.planted == nil:
		err = fmt.Errorf("--planted %q: want one of %s", *plant, strings.Join(plantNames(), ", "))
	case o.planted != nil && o.redlockd != "":
		err = errors.New("--planted needs the redlockd of this repository: leave --redlockd out")
	case len(o.faults) == 0:
		err = fmt.Errorf("--only %q: no fault has that in its name; the report lists them", o.only)
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected %q: torture has flags only", flags.Arg(0))
	case o.length < time.Second:
		err = fmt.Errorf("--for %v: at least 1s", o.length)
	case o.every < 100*time.Millisecond:
		err = fmt.Errorf("--every %v: at least 100ms", o.every)
	case o.sessions < 1 || o.sessions > 100:
		err = fmt.Errorf("--sessions %d: 1 to 100", o.sessions)
	case o.pace < time.Millisecond:
		err = fmt.Errorf("--pace %v: at least 1ms", o.pace)
	}
	for o.seed == 0 {
		o.seed = uint64(rand.Uint32())
	}
	return o, err
}

// healing is how long all locks may take to be there again after the last fault: some quarantines, and a founding.
const healing = 60 * time.Second

// run is the whole torture, up to the judgement.
func run(ctx context.Context, o options, progress io.Writer) (*report, error) {
	scratch, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(o.out, "servers.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c, err := startCluster(ctx, o, scratch, log)
	if err != nil {
		return nil, err
	}
	end := sync.OnceFunc(c.close)
	defer end()
	if !c.clocked {
		o.faults = slices.DeleteFunc(o.faults, func(f fault) bool { return f.family == familyOwnClock })
	}
	if len(o.faults) == 0 {
		return nil, errors.New("none of these faults can be brought about: the clocks of a redlockd are moved in one that is built here, on amd64")
	}
	h := newHistory()
	n := newNemesis(c, h, o)
	r := newReport(o, c, h, n)
	fmt.Fprintf(progress, "torture: --for %v --seed %d; servers and clients say what they have to say in %s\n", o.length, o.seed, log.Name())

	faulty, stop := context.WithTimeout(ctx, o.length)
	defer stop()
	working, rest := context.WithCancel(context.Background())
	defer rest()
	var sessions, showing sync.WaitGroup
	for i, client := range c.clients {
		for j := range o.sessions {
			s := &session{client: client, number: j, random: rand.New(rand.NewPCG(o.seed, uint64(1000*i+j))), history: h, redlockds: redlockdCount, pace: o.pace}
			sessions.Go(func() { s.run(working) })
		}
	}
	showing.Go(func() { r.show(faulty, progress) })
	n.run(faulty)
	r.faultsEnded = monotonic()
	showing.Wait()
	rest()
	sessions.Wait()
	r.workEnded = monotonic()
	if r.interrupted = ctx.Err() != nil || o.planted != nil; !r.interrupted { // Ctrl-C has reached the masters, too; a bug may keep it from healing
		fmt.Fprintln(progress, "torture: all faults are undone; are all locks there again?")
		if err := c.awaitLocks(context.Background(), healing); err != nil {
			h.report(monotonic(), "", "not healed: %v", err)
			c.dump(context.Background())
		}
		r.healed = monotonic()
		if err := c.keysLeft(context.Background(), maxTTL+healing); err != nil {
			h.report(monotonic(), "", "not healed: %v", err)
		}
	}
	end()
	r.end()
	fmt.Fprintf(progress, "torture: judging %d leases and %d accesses to registers\n", len(h.leases), len(h.accesses))
	r.judge()
	return r, nil
}
