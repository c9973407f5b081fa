package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// crowd is many bare connections to one redlockd. They cost this process a file descriptor each and nothing else, so that
// ten thousand fit; a client library would need more memory here than the server that is measured.
type crowd struct{ conns []net.Conn }

const (
	// crowdPerSource is how many connections come from one address of loopback before the next, 127.0.0.3 and so on, is
	// used: an address has some 28 000 ports, and those of a crowd that has left stay taken for a minute.
	crowdPerSource = 5000
	// crowdReserve are the file descriptors that this process needs beside a crowd.
	crowdReserve = 500
	crowdTimeout = 30 * time.Second
)

// requireFiles refuses a crowd that the limit on open files does not allow. The soft limit needs no care: Go raises it to
// the hard one, here as in redlockd.
func requireFiles(connections int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit on open files: %w", err)
	}
	if uint64(connections+crowdReserve) > limit.Max {
		return fmt.Errorf("%d connections need %d open files in one process, the hard limit (ulimit -Hn) is %d: raise it, or ask for fewer",
			connections, connections+crowdReserve, limit.Max)
	}
	return nil
}

// dialCrowd connects n times, and has every connection answer a PING before the next is made: the server's queue of
// connections that wait to be accepted is short.
func dialCrowd(ctx context.Context, addr string, n int) (*crowd, error) {
	c := &crowd{conns: make([]net.Conn, 0, n)}
	for i := range n {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i/crowdPerSource))}, Timeout: crowdTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			c.conns = append(c.conns, conn)
			err = ask(conn, "PING\r\n", "+PONG\r\n")
		}
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
	}
	return c, nil
}

// ask sends a command and wants exactly this answer.
func ask(conn net.Conn, command, want string) error {
	conn.SetDeadline(time.Now().Add(crowdTimeout))
	if _, err := io.WriteString(conn, command); err != nil {
		return err
	}
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if string(got[:n]) != want {
		return fmt.Errorf("got %q, want %q", got[:n], want)
	}
	return nil
}

// wait has every connection ask for a lock and returns when the server counts all of them as waiting. The command is a
// function of the connection's number.
func (c *crowd) wait(ctx context.Context, addr string, command func(i int) string) error {
	for i, conn := range c.conns {
		conn.SetDeadline(time.Now().Add(crowdTimeout))
		if _, err := io.WriteString(conn, command(i)+"\r\n"); err != nil {
			return fmt.Errorf("waiter %d of %d: %w", i+1, len(c.conns), err)
		}
	}
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	defer client.Close()
	for deadline := time.Now().Add(crowdTimeout); ; {
		info, err := client.Info(ctx, "clients").Result()
		if err != nil {
			return fmt.Errorf("count the waiters: %w", err)
		}
		waiting, _ := strconv.Atoi(fieldOf(info, "blocked_clients"))
		if waiting == len(c.conns) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d clients wait after %v, want %d", waiting, crowdTimeout, len(c.conns))
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *crowd) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

const (
	// holdBatch is how many LOCKs are sent at once.
	holdBatch = 500
	// holdLateMax bounds how often the same LOCKs are sent again.
	holdLateMax = 20
	holdPause   = 100 * time.Millisecond
)

// hold locks the resources prefix+from to prefix+(to-1) and keeps them: nobody will release them.
func hold(ctx context.Context, addr, prefix string, from, to int, ttl time.Duration) error {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1})
	defer client.Close()
	for from < to {
		batch := min(holdBatch, to-from)
		for sent := 0; ; sent++ {
			commands, _ := client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i := from; i < from+batch; i++ {
					p.Do(ctx, "LOCK", prefix+strconv.Itoa(i), ttl.Milliseconds())
				}
				return nil
			})
			late, err := refusedOf(commands, sent > 0)
			if err == nil {
				break
			}
			if !late || sent == holdLateMax {
				return fmt.Errorf("hold %s%d to %d: %w", prefix, from, from+batch-1, err)
			}
			if err := sleep(ctx, holdPause); err != nil {
				return err
			}
		}
		from += batch
	}
	return nil
}

// refusedOf is what was not granted; late says that sending all again can help: a busy machine lets a quorum of masters be late now
// and then, among a million locks. When they were sent before, a null is what that sending got.
func refusedOf(commands []redis.Cmder, again bool) (late bool, err error) {
	for _, command := range commands {
		switch e := command.Err(); {
		case e == nil, again && errors.Is(e, redis.Nil):
		case strings.HasPrefix(e.Error(), "NOQUORUM"):
			late, err = true, e
		default: // also a null: somebody holds it
			return false, e
		}
	}
	return late, err
}
