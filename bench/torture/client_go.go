package main

// The client program in Go: go-redis, and bsm/redislock for locks of a library. It says and hears what client.py and client.js do.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// clientCommand is the first argument of this program when it is a client.
const clientCommand = "client-in-go"

type goSession struct {
	addresses []string
	timeout   time.Duration
	conns     map[int]*redis.Client
	locks     map[string]*redislock.Lock
	calls     chan call
}

func runGoClient(args []string) error {
	if len(args) != 2 {
		return errors.New(clientCommand + " ADDRESSES TIMEOUT-MS")
	}
	ms, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var (
		mu       sync.Mutex
		out      = json.NewEncoder(os.Stdout)
		sessions = map[int]*goSession{}
	)
	out.Encode(map[string]string{"ready": fmt.Sprintf("go-redis %s, redislock %s, %s", moduleVersion("github.com/redis/go-redis/v9"), moduleVersion("github.com/bsm/redislock"), runtime.Version())})
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var c call
		if err := in.Decode(&c); err != nil {
			if errors.Is(err, io.EOF) {
				return nil // the sessions end with the process
			}
			return err
		}
		s := sessions[c.Session]
		if s == nil {
			s = &goSession{strings.Split(args[0], ","), time.Duration(ms) * time.Millisecond, map[int]*redis.Client{}, map[string]*redislock.Lock{}, make(chan call, 16)}
			sessions[c.Session] = s
			go func() {
				for c := range s.calls {
					a := answer{ID: c.ID, Start: monotonic()}
					reply, err := s.do(c)
					switch {
					case errors.Is(err, redis.Nil) || errors.Is(err, redislock.ErrNotObtained):
					case errors.Is(err, redislock.ErrLockNotHeld):
						a.Reply = 0
					case err != nil:
						a.Error = err.Error()
					default:
						a.Reply = reply
					}
					a.End = monotonic()
					mu.Lock()
					out.Encode(a)
					mu.Unlock()
				}
			}()
		}
		s.calls <- c
	}
}

func (s *goSession) do(c call) (any, error) {
	ctx := context.Background()
	if c.Op == "close" {
		if conn := s.conns[c.To]; conn != nil {
			conn.Close()
			delete(s.conns, c.To)
		}
		return 1, nil
	}
	conn := s.conns[c.To]
	if conn == nil {
		conn = redis.NewClient(&redis.Options{
			Addr:        s.addresses[c.To],
			Protocol:    2,
			PoolSize:    1,
			MaxRetries:  -1, // nothing is sent twice: the torture decides about that
			DialTimeout: s.timeout,
			ReadTimeout: s.timeout,
		})
		s.conns[c.To] = conn
	}
	name := c.Args[0]
	switch c.Op {
	case "do":
		args := make([]any, len(c.Args))
		for i, arg := range c.Args {
			args[i] = arg
		}
		return conn.Do(ctx, args...).Result()
	case "obtain":
		ttl, _ := strconv.Atoi(c.Args[1])
		lock, err := redislock.Obtain(ctx, conn, name, time.Duration(ttl)*time.Millisecond, nil)
		if err != nil {
			return nil, err
		}
		s.locks[name] = lock
		return []any{lock.Token(), ttl}, nil
	case "extend":
		ttl, _ := strconv.Atoi(c.Args[1])
		err := s.locks[name].Refresh(ctx, time.Duration(ttl)*time.Millisecond, nil)
		if errors.Is(err, redislock.ErrNotObtained) {
			err = redislock.ErrLockNotHeld
		}
		return ttl, err
	case "release":
		return 1, s.locks[name].Release(ctx)
	}
	return nil, fmt.Errorf("no such op %q", c.Op)
}
