package redlock_test

import (
	"log/slog"
	"time"

	"redlockd/proxy"
	"redlockd/redlock"
)

// Package proxy imports package redlock, so the tests in there cannot import it. This file can, and gives them its servers.
func init() {
	redlock.NewSimServer = func(engine *redlock.Client, maxTTL time.Duration, places int, log *slog.Logger) (redlock.SimServer, error) {
		s := simServer{engine: engine, maxTTL: maxTTL, places: places, log: log}
		srv, err := proxy.New(s.options(0))
		s.Server = srv
		return s, err
	}
}

// simServer is a redlockd of the simulation.
type simServer struct {
	*proxy.Server
	engine *redlock.Client
	maxTTL time.Duration
	places int // of sizes
	log    *slog.Logger
}

// options are settings with limits that the callers of the simulation reach where places is 1. Those of an odd edition differ in the policies.
func (s simServer) options(edition int) proxy.Options {
	no := false
	delayed := proxy.Policy{Prefix: redlock.SimDelayed, MaxTTL: s.maxTTL * 2 / 3, LockDelay: redlock.SimLockDelay, MaxWaiters: 3 * s.places}
	if edition%2 == 1 {
		delayed.MaxWait, delayed.MaxWaiters = 200*time.Millisecond, 1
	}
	return proxy.Options{
		Engine: s.engine, Logger: s.log, DefaultTTL: s.maxTTL / 2, MaxClients: 20 * s.places,
		Users: []proxy.User{
			{Name: "app", Password: "app", Admin: &no, MaxConnections: 20 * s.places, MaxLocks: 12 * s.places, MaxMemory: 3000 * s.places, MaxWaiters: 4 * s.places},
			{Name: "batch", Password: "batch", Admin: &no, MaxConnections: 6 * s.places, MaxLocks: 4 * s.places, MaxMemory: 1 << 20},
			{Name: "root", Password: "root", MaxConnections: 20 * s.places, MaxMemory: 1 << 20},
		},
		Policies: []proxy.Policy{delayed, {Prefix: redlock.SimFenced, Fence: proxy.FenceAlways}},
	}
}

func (s simServer) Reload(edition int) error {
	_, err := s.Server.Reload(s.options(edition))
	return err
}
