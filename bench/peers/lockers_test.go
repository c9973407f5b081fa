package peers

// The lock libraries.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"redlockd/redlock"
)

// nodePackages is where `make scenarios` installs node-redlock.
const nodePackages = "../../cmd/redlockd/testdata/libraries/build/node"

// locker is one client of a lock library.
type locker interface {
	// try asks once. It returns until when the holder may rely on the lock.
	try(ctx context.Context, resource string) (until time.Time, err error)
}

// tokenLocker is a locker of a library whose callers can choose the token.
type tokenLocker interface {
	locker
	tryAs(ctx context.Context, resource, token string) (until time.Time, err error)
}

// peer is a lock library.
type peer struct {
	name string
	open func(*trial, *party) locker // over the links that the party is told of
}

var peers = []peer{
	{"redlockd", openOurs},
	{"redsync", openRedsync},
	{"node-redlock", openNode},
}

func openOurs(p *trial, x *party) locker {
	opts := redlock.Options{MaxTTL: peerTTL, FoundingWait: peerTTL, MasterTimeout: 400 * time.Millisecond, ReconnectDelayMax: 50 * time.Millisecond}
	for i, link := range x.links {
		if slices.Contains(x.told, link) {
			opts.Masters = append(opts.Masters, redlock.Master{Addr: link.Addr, Name: p.names[i]})
		}
	}
	client, err := redlock.Open(opts)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		client.Close(ctx)
	})
	until(p.T, "masters up", func() error {
		for _, m := range client.Masters() {
			if m.State != redlock.MasterUp {
				return fmt.Errorf("%s is %s: %s", m.Addr, m.State, m.Reason)
			}
		}
		return nil
	})
	return ours{client}
}

type ours struct{ *redlock.Client }

func (o ours) try(ctx context.Context, resource string) (time.Time, error) {
	return o.tryAs(ctx, resource, "")
}

func (o ours) tryAs(ctx context.Context, resource, token string) (time.Time, error) {
	lease, err := o.Acquire(ctx, redlock.LockRequest{Resources: []string{resource}, TTL: peerTTL, Token: token})
	if err != nil {
		return time.Time{}, err
	}
	return lease.Until(), nil
}

func openRedsync(p *trial, x *party) locker {
	var pools []redsyncredis.Pool
	for _, link := range x.told {
		client := redis.NewClient(&redis.Options{Addr: link.Addr})
		p.Cleanup(func() { client.Close() })
		pools = append(pools, goredis.NewPool(client))
	}
	return redsyncLocker{redsync.New(pools...)}
}

type redsyncLocker struct{ *redsync.Redsync }

func (r redsyncLocker) try(ctx context.Context, resource string) (time.Time, error) {
	return tryRedsync(ctx, r.NewMutex(resource, redsync.WithExpiry(peerTTL)))
}

func (r redsyncLocker) tryAs(ctx context.Context, resource, token string) (time.Time, error) {
	chosen := func() (string, error) { return token, nil }
	return tryRedsync(ctx, r.NewMutex(resource, redsync.WithExpiry(peerTTL), redsync.WithGenValueFunc(chosen)))
}

func tryRedsync(ctx context.Context, mutex *redsync.Mutex) (time.Time, error) {
	if err := mutex.TryLockContext(ctx); err != nil {
		return time.Time{}, err
	}
	return mutex.Until(), nil
}

// openNode starts a process with one client of node-redlock.
func openNode(p *trial, x *party) locker {
	p.Helper()
	args := []string{"node-redlock.js", nodePackages}
	for _, link := range x.told {
		args = append(args, link.Addr)
	}
	cmd := exec.Command(filepath.Join(nodePackages, "node"), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	n := nodeLocker{in, bufio.NewScanner(out)}
	if !n.out.Scan() || n.out.Text() != "ready" {
		p.Fatalf("node-redlock: got %q (%v), want ready", n.out.Text(), n.out.Err())
	}
	return n
}

type nodeLocker struct {
	in  io.Writer
	out *bufio.Scanner
}

func (n nodeLocker) try(_ context.Context, resource string) (time.Time, error) {
	sent := time.Now()
	if _, err := fmt.Fprintf(n.in, "%s %d\n", resource, peerTTL.Milliseconds()); err != nil {
		return time.Time{}, err
	}
	if !n.out.Scan() {
		return time.Time{}, errors.Join(io.ErrUnexpectedEOF, n.out.Err())
	}
	left, err := strconv.Atoi(n.out.Text())
	if err != nil {
		return time.Time{}, fmt.Errorf("node-redlock: %s", n.out.Text())
	}
	return sent.Add(time.Duration(left) * time.Millisecond), nil
}
