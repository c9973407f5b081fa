package redlock

// A lease that the masters lose before its validity ends is noticed, whoever or whatever deleted it, and its EXTEND fails.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestRealLostLeaseIsNoticed(t *testing.T) {
	servers := realMasters(t, 5)
	c := openReal(t, servers, patient)
	allUp(t, c)
	ctx := context.Background()
	for _, name := range []string{"kept", "deleted"} {
		if _, err := c.TryLock(ctx, name, 30*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	lost, err := c.TryLock(ctx, "flushed", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := func(lost ...string) func() error {
		return func() error {
			var got []string
			for _, info := range c.Leases(func([]string) bool { return true }, 100) {
				if info.Lost {
					got = append(got, info.Resources[0])
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(lost) || c.Stats().Lost != uint64(len(lost)) {
				return fmt.Errorf("lost leases: got %v (%d counted), want %v", got, c.Stats().Lost, lost)
			}
			return nil
		}
	}
	// Two of five without it is no loss.
	for i, s := range servers {
		client := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true})
		defer client.Close()
		// A lock is granted when a quorum has it. The others get it a little later, and must not get it behind DEL.
		eventually(t, "the locks are on every master", func() error {
			if n, err := client.Exists(ctx, "kept", "deleted", "flushed").Result(); err != nil || n != 3 {
				return fmt.Errorf("%s has %d of 3 locks: %v", s.Addr, n, err)
			}
			return nil
		})
		if i < 2 {
			client.Del(ctx, "kept")
		}
		if i < 3 {
			client.Del(ctx, "deleted")
		}
	}
	eventually(t, "deleted by hand", want("deleted"))
	for _, s := range servers[2:] {
		client := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true})
		defer client.Close()
		client.FlushAll(ctx)
	}
	eventually(t, "flushed", want("deleted", "flushed", "kept"))
	if err := lost.Extend(ctx, 10*time.Second); !errors.Is(err, ErrNoQuorum) {
		t.Errorf("extend of a lease that three quarantined masters forgot: got %v, want ErrNoQuorum: no quorum has a vote", err)
	}
}
