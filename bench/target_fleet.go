package main

// fleetTarget is a plain go-redis client in front of each of several redlockd over the same masters.
type fleetTarget struct {
	proxies []*redlockdTarget
	next    int
}

func newFleetTarget(spec loadSpec) *fleetTarget {
	t := new(fleetTarget)
	for _, addr := range spec.Fleet {
		t.proxies = append(t.proxies, newRedlockdTarget(addr, spec.Callers, true, ""))
	}
	return t
}

// newCaller deals the callers out in turn: caller i is one of proxy i % len(proxies), as the referee takes it to be.
func (t *fleetTarget) newCaller() caller {
	c := t.proxies[t.next%len(t.proxies)].newCaller()
	t.next++
	return c
}

func (t *fleetTarget) close() {
	for _, p := range t.proxies {
		p.close()
	}
}
