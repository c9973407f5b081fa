package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
)

// A survey asks masters what they show of the membership, over connections of its own, made anew each
// time. So it sees who stands behind an address now, also where a lane is still connected to somebody
// else. Everything that is decided about the membership is decided from one survey (plan.go), and the
// steps that follow from it use its connections (step.go).

// surveyGrace is how long a survey waits for the rest once enough masters have answered: those that are
// known to answer, and a quorum.
const surveyGrace = 100 * time.Millisecond

// Survey is what the masters have shown.
type Survey struct {
	Began time.Time
	// Reports are in the order of their places.
	Reports []*Report
	// asking counts the goroutines that use the connections.
	asking sync.WaitGroup
}

// Report is what one master has shown.
type Report struct {
	Place  int // number of the seat
	master conn.Master
	// err is why it cannot be a member at present: it is not reached, is refused, or is used by others.
	err error
	// Conn is nil where it is not reached.
	Conn *conn.Conn

	runID   string
	version string // as conn.ServerVersion has it
	v       string // the field of the hash
	State   State  // parsed
	// record is the one that it has settled on; nil: it is fresh, or the text is not that.
	record *Record
	// before is the one that the memory before a fresh one left; nil: none, or it is not fresh.
	before *Record
	// unreadable is why the text of the record that it has settled on cannot be read; nil: it can.
	unreadable error
	// child is the one that it has accepted; nil: none, or its text cannot be read.
	child *Record
	// fields are the others of the hash: stamps and who was heard.
	fields map[string]string

	clock          time.Time     // its TIME
	skew           time.Duration // Options.ClockSkewMax
	sent, received time.Time     // when it was asked for that, and told it, on our clock
	high           int64         // the highest fence that it has accepted
	keys           int64         // in its database, those of the membership excepted

	// What it had accepted when it was asked to prepare a step: "" and nil for nothing.
	acceptedBallot string
	accepted       *Record
	// taught: it has learned the record that it was told last.
	taught bool
}

// ok tells whether the master was asked, and is fit to be a member.
func (f *Report) ok() bool { return f != nil && f.err == nil }

// shows tells whether it shows this record as settled or with an accepted child, with a memory that the
// record lists.
func (f *Report) shows(r *Record) bool {
	return f.lists(r) && !f.State.fresh && f.State.Record == r.ID()
}

// lists tells whether the record lists the memory for the seat of this place.
func (f *Report) lists(r *Record) bool {
	if !f.ok() {
		return false
	}
	s := r.Seat(f.Place)
	return s != nil && s.Memory == f.State.Memory
}

// Close ends the connections, and what still waits for an answer there.
func (s *Survey) Close() {
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

// At is what was found at a place; nil: it was not asked.
func (s *Survey) At(place int) *Report {
	for _, f := range s.Reports {
		if f.Place == place {
			return f
		}
	}
	return nil
}

// Among are the masters whose memory the record lists.
func (r *Record) Among(all []*Report) (list []*Report) {
	for _, f := range all {
		if f.lists(r) {
			list = append(list, f)
		}
	}
	return list
}

// count is how many masters match.
func (s *Survey) count(match func(f *Report) bool) (n int) {
	for _, f := range s.Reports {
		if match(f) {
			n++
		}
	}
	return n
}

// Patience is how long a survey waits for masters.
type Patience struct {
	// Enough masters that have answered end the survey when grace is over.
	Enough int
	Grace  time.Duration
	// fewer end it when late is over; 0: they do not.
	fewer int
	late  time.Duration
	// answered is told at once that a master has answered, and ends the survey where it returns true; nil:
	// nobody is told.
	answered func(s *Survey, f *Report) (done bool)
}

// SurveyMasters asks the masters, given by place, all at once. It returns when all have answered, or
// its patience is over. The caller closes the survey.
func SurveyMasters(ctx context.Context, masters map[int]conn.Master, p Patience, opts Options) *Survey {
	s := &Survey{Began: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, opts.ConnectTimeout)
	defer cancel()
	answers := make(chan *Report, len(masters))
	for place, m := range masters {
		s.asking.Go(func() {
			f := &Report{Place: place, master: m}
			f.err = conn.AsRefusal(conn.Shorten(conn.RecoverPanic(func() error { return f.ask(ctx, opts) })))
			answers <- f
		})
	}
	var over, late <-chan time.Time
	for len(s.Reports) < len(masters) {
		select {
		case f := <-answers:
			s.Reports = append(s.Reports, f)
			done := p.answered != nil && p.answered(s, f)
			ok := s.count((*Report).ok)
			if over == nil && ok >= p.Enough {
				over = time.After(p.Grace)
			}
			if late == nil && p.fewer > 0 && ok >= p.fewer {
				late = time.After(p.late)
			}
			if !done {
				continue
			}
		case <-over:
		case <-late:
		}
		cancel()
		over, late = nil, nil
		p.Enough, p.fewer = len(masters)+1, 0
	}
	s.asking.Wait()
	slices.SortFunc(s.Reports, func(a, b *Report) int { return a.Place - b.Place })
	for _, f := range s.Reports {
		if twin := s.twinOf(f); twin != nil {
			f.err = &conn.RefusedError{Reason: fmt.Sprintf("it is the same Redis as %s: each vote must come from a master of its own", twin.master.Addr)}
		}
	}
	return s
}

// twinOf is the master before this one that is the same process, which would vote twice; nil: there is
// none.
func (s *Survey) twinOf(f *Report) *Report {
	for _, other := range s.Reports {
		switch {
		case other == f:
			return nil
		case f.runID != "" && other.runID == f.runID:
			return other
		}
	}
	return nil
}

// ask connects to the master and reads everything. It names the memory of a master that has none yet,
// unless it may only read.
func (f *Report) ask(ctx context.Context, opts Options) (err error) {
	if f.Conn, err = conn.Dial(ctx, f.master, opts.ConnectTimeout); err != nil {
		return err
	}
	stop := f.Conn.BreakOff(ctx)
	if _, err = f.identify(ctx); err == nil {
		err = f.look(ctx, opts)
	}
	if !stop() {
		return conn.Explain(ctx.Err()) // also where it has answered: the connection is gone
	}
	return err
}

// identify asks who it is; more is as for conn.Identify.
func (f *Report) identify(ctx context.Context, more ...string) (info map[string]string, err error) {
	id, info, err := f.Conn.Identify(ctx, more...)
	f.runID, f.version = id.RunID, id.Version
	return info, err
}

// look asks what it shows of the membership.
func (f *Report) look(ctx context.Context, opts Options) error {
	for range 8 { // others may name the memory at the same time
		if err := f.read(ctx, opts); err != nil {
			return err
		}
		if opts.readOnly && f.State.Memory == "" { // its memory gets a name when it is seated
			f.before, _ = ParseRecord(f.fields["r"])
			f.State = State{Memory: NewMemory(f.runID), fresh: true}
		}
		if f.fields["r"] == "" { // it belongs to nobody yet, as far as this database says
			if text := fleetInOtherDB(ctx, f.Conn, f.master, opts.ConnectTimeout); text != "" {
				return &conn.RefusedError{Reason: text}
			}
		}
		if f.State.Memory != "" {
			return nil
		}
		if err := NameMemory(ctx, f.Conn, f.v, NewMemory(f.runID), Amnesia(f.v, false)); err != nil {
			return err
		}
	}
	return ErrUnsteady
}

// read reads the hash, and what else a decision needs.
func (f *Report) read(ctx context.Context, opts Options) error {
	pipe := f.Conn.Redis.Pipeline()
	// The clock comes first: a wait that is over by it was over when the fences were read.
	clock := redis.NewTimeCmd(ctx, "time")
	floor, top := fence.HighWaterCommands(ctx)
	pipe.BatchProcess(ctx, clock, floor, top)
	hash, size := pipe.HGetAll(ctx, lua.MembersKey), pipe.DBSize(ctx)
	f.sent = time.Now()
	pipe.Exec(ctx)
	f.received = time.Now()
	for _, err := range []error{AsMembersError(hash.Err()), size.Err(), clock.Err()} {
		if err != nil {
			return conn.Explain(err)
		}
	}
	high, untrue, err := fence.ReadHighWater(floor, top, f.received, opts.ClockSkewMax)
	if err != nil {
		return err
	}
	f.clock, f.skew, f.high, f.fields, f.keys = clock.Val(), opts.ClockSkewMax, high, hash.Val(), size.Val()
	if len(f.fields) > 0 {
		f.keys--
	}
	if err := f.parse(); err != nil {
		return err
	}
	if untrue != "" {
		return &conn.RefusedError{Reason: untrue}
	}
	return nil
}

// parse takes from the hash what it shows. The state stays empty where the memory has no name.
func (f *Report) parse() error {
	f.v, f.record, f.before, f.child, f.unreadable = f.fields["v"], nil, nil, nil, nil
	state, err := StateOf(f.v, f.runID)
	if f.State = state; err != nil || state.Memory == "" {
		return err
	}
	switch r, err := ParseRecord(f.fields["r"]); {
	case state.fresh:
		f.before = r
	case err != nil:
		f.unreadable = err
	case r.ID() != state.Record: //mutant:a-record-of-another-digest-is-believed
		f.unreadable = errOtherRecord
	default:
		f.record = r
	}
	f.child, _ = recordOf(f.fields["a"], state.Child)
	return nil
}

// known is the record that it shows or, where it is fresh, that it has of the memory before; nil: none.
func (f *Report) known() *Record { return cmp.Or(f.record, f.before) }

// recordOf reads the text of the record that has this digest.
func recordOf(text, digest string) (*Record, error) {
	r, err := ParseRecord(text)
	if err == nil && r.Digest != digest { //mutant:a-child-of-another-digest-is-proposed
		return nil, errOtherRecord
	}
	return r, err
}

// errOtherRecord is a text whose digest is not the one that is shown with it.
var errOtherRecord = errors.New("it is the text of another record: " + whatToDoAboutARecord)

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

// Amnesia says why a master has forgotten that shows v, which is not of this process. knew tells that
// it has been a voter.
func Amnesia(v string, knew bool) string {
	switch {
	case v == "" && !knew:
		return reasonNew
	case v == "":
		return "its membership is gone: it has restarted without its data, or was flushed"
	}
	return "its membership is of another run: it has restarted or was replaced, and may have lost the latest locks"
}

// reasonNew is why a master has no vote of which nobody knew anything. It may be brand-new: a bootstrap
// may admit it.
const reasonNew = "it has no membership: it is new, has restarted without its data, or was flushed"
