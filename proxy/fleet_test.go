package proxy

// Goal: clients of redlockd, by commands and by scripts, and redsync, which goes to the masters itself, exclude each other. Method: real
// redis-servers, one after the other. What happens when many contend, and under faults, the simulation of package redlock plays.

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

// serversOverMasters starts servers with an engine each, over five real masters.
func serversOverMasters(t testing.TB, n int, opts redlock.Options) (masters []*redisproc.Server, servers []*testServer) {
	masters = redisproc.StartForTest(t, 5)
	for _, m := range masters {
		opts.Masters = append(opts.Masters, redlock.Master{Addr: m.Addr})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := redlock.Bootstrap(ctx, opts); err != nil {
		t.Fatal(err)
	}
	for range n {
		engine, err := redlock.Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			engine.Close(ctx)
		})
		allUp(t, engine)
		servers = append(servers, serve(t, func(o *Options) { o.Engine = engine }))
	}
	return masters, servers
}

func TestRedsyncOnTheMasters(t *testing.T) {
	masters, servers := serversOverMasters(t, 1, redlock.Options{MasterTimeout: 10 * time.Second})
	c := servers[0].dial()
	var pools []redsyncredis.Pool
	for _, m := range masters {
		client := redis.NewClient(&redis.Options{Addr: m.Addr})
		t.Cleanup(func() { client.Close() })
		pools = append(pools, goredis.NewPool(client))
	}
	locks := redsync.New(pools...)
	for key, command := range map[string]struct{ lock, unlock []string }{
		"native":  {[]string{"LOCK", "native", "30000", "TOKEN", token}, []string{"UNLOCK", "native", token}},
		"command": {[]string{"SET", "command", token, "NX", "PX", "30000"}, []string{"DELEX", "command", "IFEQ", token}},
		"script":  {[]string{"EVAL", acquireScript, "1", "script", token, "30000"}, []string{"EVAL", releaseScript, "1", "script", token}},
	} {
		other := locks.NewMutex(key, redsync.WithExpiry(time.Minute), redsync.WithTries(1))
		c.do(command.lock...).matches(`\["` + token + `" :\d+\]|\+OK`)
		if err := other.TryLock(); err == nil {
			t.Errorf("%s: redsync has the lock, too", key)
		}
		c.do(command.unlock...).is(":1")
		eventually(t, "redsync has the lock", func() bool { return other.TryLock() == nil })
		c.do(command.lock...).matches(`[*$]nil`)
		if ok, err := other.Unlock(); !ok || err != nil {
			t.Errorf("%s: redsync's unlock: got %v, %v", key, ok, err)
		}
		c.until(`\["`+token+`" :\d+\]|\+OK`, command.lock...)
		c.do(command.unlock...).is(":1")
	}
}
