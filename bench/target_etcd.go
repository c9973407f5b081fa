package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

func newEtcdTarget(addr string) (*etcdTarget, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{addr},
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return &etcdTarget{client: client}, nil
}

// etcdTarget is etcd's own mutex over one client.
type etcdTarget struct{ client *clientv3.Client }

func (t *etcdTarget) newCaller() caller { return &etcdCaller{client: t.client} }

// close ends the leases with the connection: they run out by themselves.
func (t *etcdTarget) close() { t.client.Close() }

// etcdCaller has a session, a lease that is kept alive, of its own: two callers of one session hold the same lock at once.
type etcdCaller struct {
	client  *clientv3.Client
	session *concurrency.Session // made by the first acquire
	mutex   *concurrency.Mutex
}

func (c *etcdCaller) acquire(ctx context.Context, resource string) (err error) {
	if c.session == nil {
		if c.session, err = concurrency.NewSession(c.client, concurrency.WithTTL(int(lockTTL.Seconds()))); err != nil {
			return fmt.Errorf("etcd session: %w", err)
		}
	}
	c.mutex = concurrency.NewMutex(c.session, resource)
	if err := c.mutex.Lock(ctx); err != nil {
		return fmt.Errorf("etcd lock: %w", err)
	}
	return nil
}

func (c *etcdCaller) release(ctx context.Context) error {
	if err := c.mutex.Unlock(ctx); err != nil {
		return fmt.Errorf("etcd unlock: %w", err)
	}
	return nil
}
