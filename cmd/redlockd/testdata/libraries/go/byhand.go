package main

import (
	"crypto/rand"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

// The scripts that everybody writes.
const (
	releaseScript = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`
	extendScript  = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`
)

// verbs is what a lock by hand needs of a client. set is SET key token NX PX; run is EVALSHA, or EVAL
// after NOSCRIPT.
type verbs interface {
	set(name, token string, ttl time.Duration) (bool, error)
	get(name string) (string, error)
	runExtend(name, token string, ttl time.Duration) (int, error)
	runRelease(name, token string) (int, error)
	ping() error
}

type lockByHand struct {
	verbs
	name, token string
}

func (l *lockByHand) acquire(name string, ttl time.Duration, wait bool) (string, error) {
	token := rand.Text()
	for end := time.Now().Add(waitMax); ; time.Sleep(50 * time.Millisecond) {
		ok, err := l.set(name, token, ttl)
		if ok {
			l.name, l.token = name, token
		}
		if ok || err != nil || !wait || time.Now().After(end) {
			return granted(ok), err
		}
	}
}

func (l *lockByHand) extend(ttl time.Duration) (string, error) {
	n, err := l.runExtend(l.name, l.token, ttl)
	return granted(n == 1), err
}

func (l *lockByHand) inspect() (string, error) {
	value, err := l.get(l.name)
	return held(value == l.token), err
}

func (l *lockByHand) release() (string, error) {
	n, err := l.runRelease(l.name, l.token)
	return granted(n == 1), err
}

type goRedis struct {
	client          *goredis.Client
	extend, release *goredis.Script
}

func openGoRedis(addr string) (locker, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	return &lockByHand{verbs: &goRedis{client, goredis.NewScript(extendScript), goredis.NewScript(releaseScript)}}, nil
}

func (c *goRedis) set(name, token string, ttl time.Duration) (bool, error) {
	return c.client.SetNX(ctx, name, token, ttl).Result()
}

func (c *goRedis) get(name string) (string, error) {
	value, err := c.client.Get(ctx, name).Result()
	if err == goredis.Nil {
		err = nil
	}
	return value, err
}

func (c *goRedis) runExtend(name, token string, ttl time.Duration) (int, error) {
	return c.extend.Run(ctx, c.client, []string{name}, token, ttl.Milliseconds()).Int()
}

func (c *goRedis) runRelease(name, token string) (int, error) {
	return c.release.Run(ctx, c.client, []string{name}, token).Int()
}

func (c *goRedis) ping() error { return c.client.Ping(ctx).Err() }

type redigo struct {
	pool            *redis.Pool
	extend, release *redis.Script
}

func openRedigo(addr string) (locker, error) {
	pool := &redis.Pool{
		MaxIdle: 3,
		Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", addr) },
		TestOnBorrow: func(c redis.Conn, _ time.Time) error {
			_, err := c.Do("PING")
			return err
		},
	}
	return &lockByHand{verbs: &redigo{pool, redis.NewScript(1, extendScript), redis.NewScript(1, releaseScript)}}, nil
}

func (c *redigo) set(name, token string, ttl time.Duration) (bool, error) {
	conn := c.pool.Get()
	defer conn.Close()
	reply, err := redis.String(conn.Do("SET", name, token, "NX", "PX", ttl.Milliseconds()))
	if err == redis.ErrNil {
		err = nil
	}
	return reply == "OK", err
}

func (c *redigo) get(name string) (string, error) {
	conn := c.pool.Get()
	defer conn.Close()
	value, err := redis.String(conn.Do("GET", name))
	if err == redis.ErrNil {
		err = nil
	}
	return value, err
}

func (c *redigo) runExtend(name, token string, ttl time.Duration) (int, error) {
	conn := c.pool.Get()
	defer conn.Close()
	return redis.Int(c.extend.Do(conn, name, token, ttl.Milliseconds()))
}

func (c *redigo) runRelease(name, token string) (int, error) {
	conn := c.pool.Get()
	defer conn.Close()
	return redis.Int(c.release.Do(conn, name, token))
}

func (c *redigo) ping() error {
	conn := c.pool.Get()
	defer conn.Close()
	_, err := conn.Do("PING")
	return err
}
