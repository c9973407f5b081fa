package survey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
)

// Grace is how long a survey waits for the rest once enough masters have answered: those that are
// known to answer, and a quorum.
const Grace = 100 * time.Millisecond

// Masters are those of a survey, with its connections.
type Masters struct {
	*member.Survey
	// asking counts the goroutines that use the connections.
	asking sync.WaitGroup
}

// Go calls f on a goroutine that uses a connection. Close waits for it.
func (s *Masters) Go(f func()) { s.asking.Go(f) }

// Close ends the connections, and what still waits for an answer there.
func (s *Masters) Close() {
	for _, f := range s.Reports {
		if f.Conn != nil {
			f.Conn.Socket.Close()
		}
	}
	s.asking.Wait()
	for _, f := range s.Reports {
		if f.Conn != nil {
			f.Conn.Close()
			f.Conn = nil
		}
	}
}

// Patience is how long a survey waits for masters.
type Patience struct {
	// Enough masters that have answered end the survey when Grace is over.
	Enough int
	Grace  time.Duration
	// Fewer end it when Late is over; 0: they do not.
	Fewer int
	Late  time.Duration
	// Answered is told at once that a master has answered, and ends the survey where it returns true; nil:
	// nobody is told.
	Answered func(s *member.Survey, f *member.Report) (done bool)
}

// Ask asks the masters, given by place, all at once. It returns when all have answered, or
// its patience is over. The caller closes the survey.
func Ask(ctx context.Context, masters map[int]conn.Master, p Patience, opts member.Options) *Masters {
	s := &Masters{Survey: &member.Survey{Began: time.Now()}}
	ctx, cancel := context.WithTimeout(ctx, opts.ConnectTimeout)
	defer cancel()
	answers := make(chan *member.Report, len(masters))
	for place, m := range masters {
		s.asking.Go(func() {
			f := &member.Report{Place: place, Master: m}
			f.Err = conn.AsRefusal(conn.Shorten(conn.RecoverPanic(func() error { return ask(ctx, f, opts) })))
			answers <- f
		})
	}
	var over, late <-chan time.Time
	for len(s.Reports) < len(masters) {
		select {
		case f := <-answers:
			s.Reports = append(s.Reports, f)
			done := p.Answered != nil && p.Answered(s.Survey, f)
			ok := s.Count((*member.Report).OK)
			if over == nil && ok >= p.Enough {
				over = time.After(p.Grace)
			}
			if late == nil && p.Fewer > 0 && ok >= p.Fewer {
				late = time.After(p.Late)
			}
			if !done {
				continue
			}
		case <-over:
		case <-late:
		}
		cancel() // the others answer at once
	}
	slices.SortFunc(s.Reports, func(a, b *member.Report) int { return a.Place - b.Place })
	for _, f := range s.Reports {
		if twin := s.TwinOf(f); twin != nil {
			f.Err = &conn.RefusedError{Reason: fmt.Sprintf("it is the same Redis as %s: each vote must come from a master of its own", twin.Master.Addr)}
		}
	}
	return s
}

// ask connects to the master and reads everything. It names the memory of a master that has none yet,
// unless it may only read.
func ask(ctx context.Context, f *member.Report, opts member.Options) (err error) {
	if f.Conn, err = conn.Dial(ctx, f.Master, opts.ConnectTimeout); err != nil {
		return err
	}
	stop := f.Conn.BreakOff(ctx)
	if _, err = Identify(ctx, f); err == nil {
		err = Look(ctx, f, opts)
	}
	if !stop() {
		return conn.Explain(ctx.Err()) // also where it has answered: the connection is gone
	}
	return err
}

// Identify asks who it is; more is as for conn.Identify.
func Identify(ctx context.Context, f *member.Report, more ...string) (info map[string]string, err error) {
	id, info, err := f.Conn.Identify(ctx, more...)
	f.RunID, f.Version = id.RunID, id.Version
	return info, err
}

// Look asks what it shows of the membership.
func Look(ctx context.Context, f *member.Report, opts member.Options) error {
	for range 8 { // others may name the memory at the same time
		if err := read(ctx, f, opts); err != nil {
			return err
		}
		if opts.ReadOnly && f.State.Memory == "" { // its memory gets a name when it is seated
			f.Before, _ = member.ParseRecord(f.Fields["r"])
			f.State = member.State{Memory: member.NewMemory(f.RunID), Fresh: true}
		}
		if f.Fields["r"] == "" { // it belongs to nobody yet, as far as this database says
			if text := fleetInOtherDB(ctx, f.Conn, f.Master, opts.ConnectTimeout); text != "" {
				return &conn.RefusedError{Reason: text}
			}
		}
		if f.State.Memory != "" {
			return nil
		}
		if err := NameMemory(ctx, f.Conn, f.V, member.NewMemory(f.RunID), member.Amnesia(f.V, false)); err != nil {
			return err
		}
	}
	return ErrUnsteady
}

// read reads the hash, and what else a decision needs.
func read(ctx context.Context, f *member.Report, opts member.Options) error {
	pipe := f.Conn.Redis.Pipeline()
	// The clock comes first: a wait that is over by it was over when the fences were read.
	clock := redis.NewTimeCmd(ctx, "time")
	floor, top := fence.HighWaterCommands(ctx)
	pipe.BatchProcess(ctx, clock, floor, top)
	hash, size := pipe.HGetAll(ctx, lua.MembersKey), pipe.DBSize(ctx)
	f.Sent = time.Now()
	pipe.Exec(ctx)
	f.Received = time.Now()
	for _, err := range []error{AsMembersError(hash.Err()), size.Err(), clock.Err()} {
		if err != nil {
			return conn.Explain(err)
		}
	}
	high, untrue, err := fence.ReadHighWater(floor, top, f.Received, opts.ClockSkewMax)
	if err != nil {
		return err
	}
	f.Clock, f.Skew, f.High, f.Fields, f.Keys = clock.Val(), opts.ClockSkewMax, high, hash.Val(), size.Val()
	if len(f.Fields) > 0 {
		f.Keys--
	}
	if err := f.Parse(); err != nil {
		return err
	}
	if untrue != "" {
		return &conn.RefusedError{Reason: untrue}
	}
	return nil
}

// AsMembersError is an error of reading the membership. Where somebody has put another key in its
// place, the master is refused until it is gone.
func AsMembersError(err error) error {
	if conn.IsWrongType(err) {
		return &conn.RefusedError{Reason: noMembership}
	}
	return err
}

const noMembership = "its " + lua.MembersKey + " is no membership: see who writes to it, and run DEL " + lua.MembersKey + " there; it votes after the wait"

// NameMemory names the memory of the master, if it still shows v ("": nothing), and says what has
// become of the one before. Of several clients that name it, the first is right.
func NameMemory(ctx context.Context, conn *conn.Conn, v, memory, why string) error {
	if err := conn.Redis.Eval(ctx, lua.Mint.Text, []string{lua.MembersKey}, v, memory, why).Err(); err != nil {
		return fmt.Errorf("name the memory in %s: %w", lua.MembersKey, err)
	}
	return nil
}

// ErrUnsteady: whenever a memory is given a name, it is gone again.
var ErrUnsteady = errors.New("its " + lua.MembersKey + " changes faster than it can be read")

// fleetInOtherDB says which fleet has its membership in another database of the same Redis; "": none
// that this user may see. Messages between redlockds reach all databases, so a Redis belongs to one
// fleet.
func fleetInOtherDB(ctx context.Context, l *conn.Conn, m conn.Master, timeout time.Duration) string {
	keyspace, _ := l.Redis.Info(ctx, "keyspace").Result()
	dbs := conn.ParseInfo(keyspace)
	delete(dbs, fmt.Sprint("db", m.DB))
	if len(dbs) == 0 {
		return ""
	}
	link, err := conn.Dial(ctx, m, timeout) // of its own, because it must not stay in another database
	if err != nil {
		return ""
	}
	defer link.Close()
	for _, name := range slices.Sorted(maps.Keys(dbs)) {
		db, err := strconv.Atoi(strings.TrimPrefix(name, "db"))
		if err != nil || link.Redis.Select(ctx, db).Err() != nil {
			continue
		}
		// A membership that has no seat in the database where it stands has got there by SWAPDB.
		inIt := func(one member.Seat) bool { _, of, _ := conn.SplitAddr(one.Addr); return of == db }
		if r, err := member.ParseRecord(link.Redis.HGet(ctx, lua.MembersKey, "r").Val()); err == nil && slices.ContainsFunc(r.Seats, inIt) { //mutant:two-fleets-in-one-redis
			return fmt.Sprintf("its database %d has the membership of a fleet, whose masters are %s, and database %d has none: a Redis serves one fleet; "+
				"write db = %[1]d to join that one, or name another master; if that fleet is gone, run FLUSHALL on this one", db, member.SeatNames(r), m.DB)
		}
	}
	return ""
}

// ProbeKeyTTL is how long a key lives that tries whether a master takes it.
const ProbeKeyTTL = time.Second

// TryWriting tries whether the master takes a key. A survey only reads, and a master whose memory is
// full would be a member that grants nothing. The key goes with it, because a master that holds one
// cannot be seated.
func TryWriting(ctx context.Context, f *member.Report) error {
	key := lua.ReservedPrefix + "probe:" + member.Nonce()
	pipe := f.Conn.Redis.Pipeline()
	set := pipe.Set(ctx, key, "0", ProbeKeyTTL)
	pipe.Unlink(ctx, key) //mutant:the-probe-of-a-new-master-stays
	pipe.Exec(ctx)
	return set.Err()
}
