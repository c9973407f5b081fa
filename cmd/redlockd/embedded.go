package main

import (
	"fmt"

	"redlockd/redlock"
	"redlockd/redlock/memmaster"
)

const embeddedMasters = 5

// embed starts masters inside this process and names them in the options. They are the same in-memory masters that the
// tests use, reached through pipes. The returned function ends them.
func embed(o *redlock.Options) (end func()) {
	var masters []*memmaster.Master
	for i := range embeddedMasters {
		m := memmaster.New(memmaster.Options{})
		masters = append(masters, m)
		o.Masters = append(o.Masters, redlock.Master{Addr: fmt.Sprintf("embedded-%d", i+1), Dialer: m.Dial})
	}
	return func() {
		for _, m := range masters {
			m.Close()
		}
	}
}
