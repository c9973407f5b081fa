package fleettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/redisproc"
)

// ErrAway is why a master is not reached.
var ErrAway = errors.New("the master is away")

// Fleet is a set of masters.
type Fleet struct {
	testing.TB
	Masters []*memmaster.Master
}

// InVirtualTime runs a test with n new masters.
func InVirtualTime(t *testing.T, n int, test func(s *Fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &Fleet{TB: t}
		for range n {
			m := memmaster.New(memmaster.Options{})
			t.Cleanup(m.Close)
			s.Masters = append(s.Masters, m)
		}
		test(s)
	})
}

// Links are new ways to all masters.
func (s *Fleet) Links() (paths []*memmaster.Link) {
	for _, m := range s.Masters {
		paths = append(paths, m.Link())
	}
	return paths
}

// Drift is that of usual clocks.
var Drift = clock.Drift{Factor: 0.01, StepMax: 10 * time.Millisecond}

// Options are those of a client that reaches the masters over these links. They are called m1, m2 …
func (s *Fleet) Options(paths []*memmaster.Link) member.Options {
	o := member.Options{ConnectTimeout: time.Second, Heartbeat: 250 * time.Millisecond, MaxTTL: time.Minute, FoundingWait: 10 * time.Millisecond, ClockSkewMax: time.Second, Drift: Drift}
	for i, path := range paths {
		o.Masters = append(o.Masters, conn.Master{Addr: fmt.Sprint("m", i+1), Dialer: path.Dial})
	}
	return o
}

// OptionsOf name the masters at these places, in this order. At a place below 0 there is nobody. The
// addresses alias1, alias2 … lead to the masters as well.
func (s *Fleet) OptionsOf(places ...int) member.Options {
	links := s.Links()
	o := s.Options(links)
	o.Masters = nil
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		for i, link := range links {
			if n := fmt.Sprint(i + 1); addr == "m"+n || addr == "alias"+n {
				return link.Dial(ctx, network, addr)
			}
		}
		return nil, errors.New("no such host")
	}
	for _, i := range places {
		addr := fmt.Sprint("m", i+1)
		if i < 0 {
			addr = fmt.Sprint("typo", -i)
		}
		o.Masters = append(o.Masters, conn.Master{Addr: addr, Dialer: dial})
	}
	return o
}

// Do sends a command to a master from outside.
func (s *Fleet) Do(i int, args ...any) any {
	s.Helper()
	client := redis.NewClient(&redis.Options{Dialer: s.Masters[i].Dial, Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	defer client.Close()
	reply, err := client.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		s.Fatalf("%v: %v", args, err)
	}
	return reply
}

// ReportsAt are what the masters at these places have shown; of all, if none are given.
func ReportsAt(s *member.Survey, places ...int) (list []*member.Report) {
	for _, f := range s.Reports {
		if len(places) == 0 || slices.Contains(places, f.Place) {
			list = append(list, f)
		}
	}
	return list
}

// Demotes is the record behind parent in which a seat loses its vote.
func Demotes(parent *member.Record, place int) *member.Record {
	child := parent.Child()
	s := child.Seat(place)
	s.State, s.Since = member.Learner, child.Version
	return child.Seal()
}

// OnBothMasters runs a test with a client of a master in memory, and with one of a redis-server.
func OnBothMasters(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	m := memmaster.New(memmaster.Options{})
	defer m.Close()
	server := redisproc.StartForTest(t, 1)[0]
	for name, o := range map[string]*redis.Options{"memory": {Dialer: m.Dial}, "redis-server": {Addr: server.Addr}} {
		o.Protocol, o.DisableIdentity = 2, true
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(o)
			defer client.Close()
			test(t, client)
		})
	}
}

// MasterMs is a master's clock, as scripts write it.
func MasterMs(t *testing.T, client *redis.Client) int64 {
	t.Helper()
	now, err := client.Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMilli()
}
