package memmaster

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Link is a network path to a master with faults of its own, so that one dialer can lose a master that
// all others still reach. Create it with Master.Link, or with LinkTo. Its methods may be called from any
// goroutine.
//
// A link behaves as TCP does: it never loses a byte in the middle of a connection. What a fault keeps
// from arriving arrives late, after Heal, also when the sender has closed the connection meanwhile (its
// kernel keeps on resending); or never, if the connection is cut first.
type Link struct {
	// accept makes a connection at the other end, or reports false where a kernel would refuse it.
	accept func(*Link) (*pipe, bool)

	// mu also guards every stream of this link. Lock order: Master.mu before Link.mu.
	mu sync.Mutex
	// held says by direction that nothing arrives.
	held [2]bool
	// delay is what each write takes, by direction; nil is no time.
	delay [2]func() time.Duration
	// healed is closed by Heal, which dials wait for; nil while nothing is held.
	healed chan struct{}
	// pipes are the connections of which an end is still open, in order of birth.
	pipes []*pipe
}

// direction is one of the two streams of a connection.
type direction int

const (
	requests direction = iota
	replies
)

// Link returns a new link to m without faults.
func (m *Master) Link() *Link { return &Link{accept: m.accept} }

// LinkTo returns a link to another server than a master. accept gets the server's end of each new
// connection, and must not block.
func LinkTo(accept func(net.Conn)) *Link {
	return &Link{accept: func(l *Link) (*pipe, bool) {
		p := l.newPipe()
		accept(&p.server)
		return p, true
	}}
}

// Dial connects to the master; network and addr are ignored. It has the signature of a go-redis Dialer.
// It fails with ECONNREFUSED while the master is crashed, closed or unreachable; while the link holds
// anything back it waits for Heal or the end of ctx; a frozen master's kernel accepts. A delay costs
// one round trip.
func (l *Link) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: pipeAddr{}.Network(), Addr: pipeAddr{}, Err: err}
	}
	for {
		wait, healed := l.dialWait()
		if err := pause(ctx, wait, healed); err != nil {
			return fail(err)
		}
		if healed == nil {
			break
		}
	}
	p, ok := l.accept(l)
	if !ok {
		return fail(syscall.ECONNREFUSED)
	}
	return &p.client, nil
}

// dialWait says how long a handshake takes now, or what it waits for first.
func (l *Link) dialWait() (wait time.Duration, healed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healed != nil {
		return 0, l.healed
	}
	return l.delayLocked(requests) + l.delayLocked(replies), nil
}

// pause waits for healed if there is one, otherwise for the given time.
func pause(ctx context.Context, wait time.Duration, healed <-chan struct{}) error {
	var elapsed <-chan time.Time
	if healed == nil {
		if wait <= 0 {
			return ctx.Err()
		}
		t := time.NewTimer(wait)
		defer t.Stop()
		elapsed = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-healed:
	case <-elapsed:
	}
	return nil
}

// delayLocked is what one write in a direction takes.
func (l *Link) delayLocked(d direction) time.Duration {
	if l.delay[d] == nil {
		return 0
	}
	return l.delay[d]()
}

// SetDelay gives every write of a client (request) and of the master (reply) a one-way delay; nil means
// none. The functions are called once per write, never two at a time on this link, so a *rand.Rand of
// the link's own needs no lock. They must not call into this package. Bytes of one direction keep their
// order whatever the delays are.
func (l *Link) SetDelay(request, reply func() time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = [2]func() time.Duration{requests: request, replies: reply}
}

// Partition stops both directions until Heal: packets lost both ways, the kernels resending.
func (l *Link) Partition() { l.hold(requests, replies) }

// HoldRequests stops what clients send until Heal: commands are not executed, or late.
func (l *Link) HoldRequests() { l.hold(requests) }

// HoldReplies stops what the master sends until Heal: commands are executed and their replies do not
// come.
func (l *Link) HoldReplies() { l.hold(replies) }

// hold stops the directions until Heal. Connections that are made meanwhile are held, too.
func (l *Link) hold(dirs ...direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range dirs {
		l.holdLocked(d, true)
	}
	if l.healed == nil {
		l.healed = make(chan struct{})
	}
}

// Heal ends Partition, HoldRequests and HoldReplies. What they kept from arriving and is not lost since
// arrives now.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holdLocked(requests, false)
	l.holdLocked(replies, false)
	if l.healed != nil {
		close(l.healed)
		l.healed = nil
	}
}

func (l *Link) holdLocked(d direction, held bool) {
	l.held[d] = held
	for _, p := range l.pipes {
		p.streams[d].holdLocked(held)
	}
}

// Cut breaks every connection of this link now, at both ends, with ECONNRESET: a middlebox that forgets
// or resets. What was not read yet is lost in both directions. New connections are possible at once.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pipes {
		p.breakLocked(syscall.ECONNRESET)
	}
}

// pipe is one connection in this process: a client's end, the server's end, and a stream for each
// direction.
type pipe struct {
	link    *Link
	streams [2]*stream // by direction
	client  pipeEnd
	server  pipeEnd // of which a master uses Close alone
}

func (l *Link) newPipe() *pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &pipe{link: l, streams: [2]*stream{newStream(l, requests), newStream(l, replies)}}
	p.client = pipeEnd{p, p.streams[replies], p.streams[requests]}
	p.server = pipeEnd{p, p.streams[requests], p.streams[replies]}
	l.pipes = append(l.pipes, p)
	return p
}

// cut breaks the connection at both ends; see Link.Cut.
func (p *pipe) cut(err error) {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	p.breakLocked(err)
}

// breakLocked cuts both streams. What is in them is lost.
func (p *pipe) breakLocked(err error) {
	for _, s := range p.streams {
		s.breakLocked(err)
	}
}

// forgetLocked takes the pipe off its link once both ends have closed.
func (p *pipe) forgetLocked() {
	if !p.streams[requests].readerGone || !p.streams[replies].readerGone {
		return
	}
	if i := slices.Index(p.link.pipes, p); i >= 0 {
		p.link.pipes = slices.Delete(p.link.pipes, i, i+1)
	}
}

// pipeEnd is an end of a pipe: a net.Conn.
type pipeEnd struct {
	pipe *pipe
	// in is read here, and out written.
	in, out *stream
}

func (e *pipeEnd) Read(b []byte) (int, error)  { return e.in.read(b) }
func (e *pipeEnd) Write(b []byte) (int, error) { return e.out.write(b) }

// Close does not lose what was written: it arrives, as with a TCP socket. What was not read is lost.
func (e *pipeEnd) Close() error {
	e.pipe.link.mu.Lock()
	defer e.pipe.link.mu.Unlock()
	e.out.finishLocked()
	e.in.abandonLocked()
	e.pipe.forgetLocked()
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr  { return pipeAddr{} }
func (e *pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }

func (e *pipeEnd) SetDeadline(t time.Time) error {
	e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	return e.in.setDeadline(&e.in.readDeadline, t)
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	return e.out.setDeadline(&e.out.writeDeadline, t)
}

// pipeAddr is the address of both ends of every pipe.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "memmaster" }
func (pipeAddr) String() string  { return "memmaster" }
