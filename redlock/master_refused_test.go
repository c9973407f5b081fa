package redlock

// Goal: a master that refuses what locks need is never shown as good: it has no vote for new locks, with the reason and the cure, from within
// two heartbeats until the refusal ends; releases go on where the master executes them. Method: real masters, refused by what operators meet.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

// refusals are ways in which a master refuses commands of locks.
var refusals = []struct {
	name     string
	begin    func(ctx context.Context, master *redis.Client) error
	end      func(ctx context.Context, master *redis.Client) error
	reason   string
	releases bool // it still executes them
}{
	{"its memory is full", config("maxmemory", "1"), config("maxmemory", "0"), "memory is full (OOM)", true},
	{"SET is not allowed", user("-set"), user("+set"), "ACL does not allow redlockd's user SET", true},
	{"scripts are not allowed", user("-evalsha"), user("+evalsha"), "ACL does not allow redlockd's user EVALSHA", false},
	{"a command of scripts is not allowed", user("-hincrby"), user("+hincrby"), "its scripts", false},
	{"it wants replicas", config("min-replicas-to-write", "1"), config("min-replicas-to-write", "0"), "NOREPLICAS", false},
	{"it cannot save", cannotSave, config("save", ""), "MISCONF", false},
	{"a script runs for ever", func(ctx context.Context, master *redis.Client) error {
		if err := master.ConfigSet(ctx, "lua-time-limit", "10").Err(); err != nil {
			return err
		}
		err := master.Eval(ctx, "while true do end", nil).Err() // its connection gives up
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return nil
		}
		return err
	}, func(ctx context.Context, master *redis.Client) error { return master.ScriptKill(ctx).Err() }, "BUSY", false},
}

// config sets one setting of a master.
func config(name, value string) func(ctx context.Context, master *redis.Client) error {
	return func(ctx context.Context, master *redis.Client) error { return master.ConfigSet(ctx, name, value).Err() }
}

// user changes what redlockd's user may do on a master. ACL is of Redis 6.
func user(rule string) func(ctx context.Context, master *redis.Client) error {
	return func(ctx context.Context, master *redis.Client) error {
		return master.Do(ctx, "ACL", "SETUSER", "locks", rule).Err()
	}
}

// cannotSave puts a folder where a master is to write its snapshot.
func cannotSave(ctx context.Context, master *redis.Client) error {
	settings, err := master.ConfigGet(ctx, "d*").Result() // dir and dbfilename
	if err == nil {
		err = os.MkdirAll(filepath.Join(settings["dir"], settings["dbfilename"], "in the way"), 0o700)
	}
	if err == nil {
		err = master.ConfigSet(ctx, "save", "3600 1").Err()
	}
	if err == nil {
		err = master.BgSave(ctx).Err()
	}
	for err == nil && !strings.Contains(master.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err") {
		time.Sleep(5 * time.Millisecond)
		err = ctx.Err()
	}
	return err
}

func TestRealRefusalOfACommandIsAState(t *testing.T) {
	servers := redisproc.StartForTest(t, 3)
	ctx := t.Context()
	var masters []*redis.Client
	for _, s := range servers {
		s.LeaveOutBefore(t, 6, 0, "ACL is of Redis 6")
		master := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Second})
		t.Cleanup(func() { master.Close() })
		masters = append(masters, master)
		if err := master.Do(ctx, "ACL", "SETUSER", "locks", "on", ">secret", "allkeys", "allchannels", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			var log journal
			c := openReal(t, servers, func(o *Options) {
				patient(o)
				log.option(o)
				for i := range o.Masters {
					o.Masters[i].Username, o.Masters[i].Password = "locks", "secret"
				}
			})
			// logged waits for a line of the log: a state is told before it is logged.
			logged := func(text string) (lines []string) {
				eventually(t, "the log has it", func() error {
					if lines = append(lines, log.take(text)...); len(lines) == 0 {
						return errors.New("it has no line")
					}
					return nil
				})
				return lines
			}
			allUp(t, c)
			held, err := c.TryLock(ctx, "held", time.Minute)
			if err != nil || held == nil {
				t.Fatalf("LOCK: got %v, %v", held, err)
			}
			log.take("")
			for _, master := range masters[:2] {
				if err := tt.begin(ctx, master); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 2 {
				eventually(t, "it is refused", func() error {
					if m := c.Masters()[i]; m.State != MasterRefused || !strings.Contains(m.Reason, tt.reason) {
						return fmt.Errorf("it is %s: %s, want it refused: %s", m.State, m.Reason, tt.reason)
					}
					return nil
				})
			}
			now, cancel := context.WithCancel(ctx)
			cancel()
			if err := c.Ready(now); !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("ready: got %v, want no quorum: %s", err, tt.reason)
			}
			if reason := c.Membership().Seats[0].Reason; !strings.Contains(reason, tt.reason) {
				t.Errorf("the seat: got %q, want %q", reason, tt.reason)
			}
			if _, err := c.TryLock(ctx, "another", time.Minute); !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("LOCK: got %v, want no quorum: %s", err, tt.reason)
			}
			if tt.releases {
				if err := held.Unlock(ctx); err != nil {
					t.Errorf("UNLOCK: got %v, want released", err)
				}
			}
			if begun := logged(`msg="master refused" master=` + servers[0].Addr); len(begun) != 1 || !strings.Contains(begun[0], tt.reason) || !strings.Contains(begun[0], "to_do=") {
				t.Errorf("the log: got %q, want one line", begun)
			}
			for _, master := range masters[:2] {
				if err := tt.end(ctx, master); err != nil {
					t.Fatal(err)
				}
			}
			allUp(t, c)
			eventually(t, "a lock is granted", func() error {
				lease, err := c.TryLock(ctx, "another", time.Minute)
				if err == nil && lease == nil {
					return errors.New("denied")
				}
				if err == nil {
					err = lease.Unlock(ctx)
				}
				return err
			})
			if ended := logged(`msg="master up" master=` + servers[0].Addr); len(ended) != 1 {
				t.Errorf("the log at the end: got %q, want one line", ended)
			}
			if !tt.releases {
				held.Unlock(ctx)
			}
		})
	}
}
