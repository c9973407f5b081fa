package proxy

// Goal: the Go clients that people use connect, lock, and show errors as they are.
// Method: the real libraries, with their defaults wherever they let us. Those of other languages are in
// handshake_test.go, by what they send.

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"redlockd/proxy/access"
)

func TestGoRedis(t *testing.T) {
	srv := serve(t, func(opts *Options) {
		opts.Users = []access.User{{Name: "default", Password: "secret"}, {Name: "alice", Password: "wonder"}}
	})
	for name, opts := range map[string]*redis.Options{
		"RESP2":         {Protocol: 2, Password: "secret"},
		"RESP3":         {Protocol: 3, Password: "secret"},
		"defaults":      {Username: "alice", Password: "wonder"},
		"named":         {Username: "alice", Password: "wonder", ClientName: "app", DB: 0},
		"without names": {Password: "secret", DisableIdentity: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			opts.Addr = srv.addr
			opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = patience, patience, patience // a command that is sent again gets another answer
			client := redis.NewClient(opts)
			defer client.Close()

			if got, err := client.Ping(ctx).Result(); err != nil || got != "PONG" {
				t.Fatalf("PING: got %q %v", got, err)
			}
			reply, err := client.Do(ctx, "LOCK", "go-redis", 60000).Slice()
			if err != nil || len(reply) != 2 {
				t.Fatalf("LOCK: got %v %v, want a token and a validity", reply, err)
			}
			if validity, ok := reply[1].(int64); !ok || validity < 1 || validity > 60000 {
				t.Errorf("LOCK: got a validity of %v (%[1]T), want an integer up to 60000", reply[1])
			}
			if reply, err := client.Do(ctx, "LOCK", "go-redis", 60000).Result(); err != redis.Nil {
				t.Errorf("LOCK of a held resource: got %v %v, want redis.Nil", reply, err)
			}
			if n, err := client.Do(ctx, "UNLOCK", "go-redis", reply[0]).Int(); err != nil || n != 1 {
				t.Errorf("UNLOCK: got %d %v, want 1", n, err)
			}

			if info, err := client.ClientInfo(ctx).Result(); err != nil || info.Name != opts.ClientName || opts.DisableIdentity != (info.LibName == "") {
				t.Errorf("CLIENT INFO: got %+v %v, want the name %q", info, err, opts.ClientName)
			}
			if commands, err := client.Command(ctx).Result(); err != nil || commands["mlock"] == nil {
				t.Errorf("COMMAND: got %v %v, want mlock in it", commands, err)
			}
			if settings, err := client.ConfigGet(ctx, "maxclients").Result(); err != nil || settings["maxclients"] != "10000" {
				t.Errorf("CONFIG GET: got %v %v", settings, err)
			}
			if info, err := client.InfoMap(ctx, "locks").Result(); err != nil || info["Locks"]["leases"] != "0" {
				t.Errorf("INFO: got %v %v", info, err)
			}
			if err := client.LPush(ctx, "k", "v").Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR LPUSH is not served: ") {
				t.Errorf("LPUSH: got %v, want a refusal by name", err)
			}
			for _, want := range []bool{true, false} {
				if got, err := client.SetNX(ctx, "drop-in", "token", time.Minute).Result(); err != nil || got != want {
					t.Errorf("SetNX: got %v %v, want %v", got, err, want)
				}
			}
			if err := client.Watch(ctx, func(tx *redis.Tx) error {
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, "drop-in").Err() })
				return err
			}, "drop-in"); err != nil {
				t.Errorf("Watch and Del: %v", err)
			}
			sub := client.Subscribe(ctx, "channel")
			defer sub.Close()
			if got, err := sub.Receive(ctx); err != nil {
				t.Errorf("SUBSCRIBE: got %v %v", got, err)
			}
			if err := sub.Ping(ctx, "x"); err != nil {
				t.Errorf("PING while subscribed: %v", err)
			}
			if got, err := sub.Receive(ctx); err != nil {
				t.Errorf("PING while subscribed: got %v %v", got, err)
			}
		})
	}

	wrong := redis.NewClient(&redis.Options{Addr: srv.addr, Username: "alice", Password: "secret", MaxRetries: -1})
	defer wrong.Close()
	if err := wrong.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("PING with a wrong password: got %v, want WRONGPASS", err)
	}
}

func TestRueidis(t *testing.T) {
	srv := serve(t, func(opts *Options) { opts.Users = []access.User{{Name: "alice", Password: "wonder"}} })
	for name, change := range map[string]func(*rueidis.ClientOption){
		"RESP3":  func(*rueidis.ClientOption) {},
		"RESP2":  func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true },
		"single": func(o *rueidis.ClientOption) { o.ForceSingleClient = true; o.ClientName = "app" },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			opts := rueidis.ClientOption{InitAddress: []string{srv.addr}, Username: "alice", Password: "wonder", DisableCache: true,
				Dialer: net.Dialer{Timeout: patience}, ConnWriteTimeout: patience}
			change(&opts)
			client, err := rueidis.NewClient(opts)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			do := func(args ...string) rueidis.RedisResult {
				return client.Do(ctx, client.B().Arbitrary(args...).Build())
			}
			reply, err := do("LOCK", "rueidis", "60000").ToArray()
			if err != nil || len(reply) != 2 {
				t.Fatalf("LOCK: got %v %v, want a token and a validity", reply, err)
			}
			if err := do("LOCK", "rueidis", "60000").Error(); !rueidis.IsRedisNil(err) {
				t.Errorf("LOCK of a held resource: got %v, want nil", err)
			}
			token, _ := reply[0].ToString()
			if n, err := do("UNLOCK", "rueidis", token).AsInt64(); err != nil || n != 1 {
				t.Errorf("UNLOCK: got %d %v, want 1", n, err)
			}
			if err := do("LPUSH", "k", "v").Error(); err == nil || !strings.Contains(err.Error(), "LPUSH is not served") {
				t.Errorf("LPUSH: got %v, want a refusal by name", err)
			}
		})
	}

	// With its client-side cache, which is its default: what it has read comes from the cache until it changes.
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.addr}, Username: "alice", Password: "wonder",
		Dialer: net.Dialer{Timeout: patience}, ConnWriteTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	read := func() rueidis.RedisResult {
		return client.DoCache(ctx, client.B().Get().Key("cached").Cache(), time.Hour)
	}
	if err := client.Do(ctx, client.B().Set().Key("cached").Value("v").Nx().PxMilliseconds(60000).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an answer from the cache", func() bool {
		read()
		r := read()
		v, err := r.ToString()
		if err != nil || v != "v" {
			t.Fatalf("GET cached: got %q %v, want v", v, err)
		}
		return r.IsCacheHit()
	})
	other := srv.dial()
	other.do("AUTH", "alice", "wonder").is("+OK")
	other.do("UNLOCK", "cached", "v").is(":1")
	eventually(t, "the cache has learned that the key is gone", func() bool { return rueidis.IsRedisNil(read().Error()) })
}
