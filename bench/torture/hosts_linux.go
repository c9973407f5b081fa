package main

// The hosts of the torture: each is a network namespace with one TUN device, and this process is the switch between them. So
// the switch can lose, delay and cut what it likes without netem, nft or a bridge, and nothing of the machine's own network is
// touched. The namespaces have no names: the kernel removes them when this process and its children have ended, however they end.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// network is the switch and its hosts.
type network struct {
	hosts []*host

	mu      sync.RWMutex
	effects []*effect
	random  *rand.Rand // guarded by its own mutex: effects draw from it under mu's read lock
	drawMu  sync.Mutex

	packets, dropped atomic.Int64
}

// host is one network namespace. A goroutine that is locked to its thread lives in it: the children that it starts do, too.
type host struct {
	name  string
	index int
	addr  netip.Addr
	tun   *os.File
	calls chan func()
	ended chan struct{}
}

// effect is what a fault does to the packets from some hosts to others.
type effect struct {
	from, to uint32 // sets of hosts: bits by index
	loss     float64
	delay    time.Duration
	reset    bool // both ends get a RST in the place of the packet
}

const hostsMax = 32

// newNetwork says what is missing where namespaces cannot be had.
func newNetwork(names []string, seed uint64) (*network, error) {
	if len(names) > hostsMax {
		return nil, fmt.Errorf("%d hosts: at most %d", len(names), hostsMax)
	}
	n := &network{random: rand.New(rand.NewPCG(seed, 0x7075))}
	for i, name := range names {
		h := &host{name: name, index: i, addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(10 + i)}), calls: make(chan func()), ended: make(chan struct{})}
		made := make(chan error, 1)
		go h.live(made)
		if err := <-made; err != nil {
			n.close()
			return nil, fmt.Errorf("a network namespace for %s cannot be had (it takes root, /dev/net/tun and ip of iproute2): %w", name, err)
		}
		n.hosts = append(n.hosts, h)
	}
	for _, h := range n.hosts {
		go n.forward(h)
	}
	return n, nil
}

func (n *network) close() {
	for _, h := range n.hosts {
		close(h.calls)
		<-h.ended
	}
}

func (n *network) host(name string) *host {
	for _, h := range n.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// live owns the thread of the host. The kernel kills the children that were started from a thread when it ends, so it ends last.
func (h *host) live(made chan<- error) {
	runtime.LockOSThread() // never unlocked: Go ends the thread, which is of no use to others
	defer close(h.ended)
	err := h.enter()
	made <- err
	if err != nil {
		return
	}
	for call := range h.calls {
		call()
	}
	h.tun.Close()
}

// do runs f on the host's thread.
func (h *host) do(f func() error) error {
	done := make(chan error, 1)
	h.calls <- func() { done <- f() }
	return <-done
}

func (h *host) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	var request [40]byte // struct ifreq
	copy(request[:], "tun0")
	binary.NativeEndian.PutUint16(request[unix.IFNAMSIZ:], unix.IFF_TUN|unix.IFF_NO_PI)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TUNSETIFF, uintptr(unsafe.Pointer(&request))); errno != 0 {
		unix.Close(fd)
		return fmt.Errorf("TUNSETIFF: %w", errno)
	}
	h.tun = os.NewFile(uintptr(fd), "tun of "+h.name)
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", h.addr.String() + "/24", "dev", "tun0"},
		{"link", "set", "tun0", "txqueuelen", "2000", "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// forward carries what a host sends to where it goes, until the host's device is closed.
func (n *network) forward(from *host) {
	packet := make([]byte, 1<<16)
	for {
		size, err := from.tun.Read(packet)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil || size < 20 || packet[0]>>4 != 4 {
			continue // IPv6's looking for neighbours
		}
		to := n.byAddr(netip.AddrFrom4([4]byte(packet[16:20])))
		if to == nil {
			continue
		}
		n.packets.Add(1)
		lost, reset, delay := n.fate(from, to)
		switch {
		case reset:
			n.dropped.Add(1)
			if back, on := resets(packet[:size]); back != nil {
				from.tun.Write(back)
				to.tun.Write(on)
			}
		case lost:
			n.dropped.Add(1)
		case delay > 0:
			kept := append([]byte(nil), packet[:size]...)
			time.AfterFunc(delay, func() { to.tun.Write(kept) })
		default:
			to.tun.Write(packet[:size]) // a full queue drops it, as a switch does
		}
	}
}

func (n *network) byAddr(addr netip.Addr) *host {
	if i := int(addr.As4()[3]) - 10; addr.As4()[0] == 10 && i >= 0 && i < len(n.hosts) {
		return n.hosts[i]
	}
	return nil
}

// fate is what the present effects make of one packet.
func (n *network) fate(from, to *host) (lost, reset bool, delay time.Duration) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, e := range n.effects {
		if e.from&(1<<from.index) == 0 || e.to&(1<<to.index) == 0 {
			continue
		}
		lost = lost || e.loss > 0 && n.draw() < e.loss
		reset = reset || e.reset
		delay += e.delay
	}
	return lost, reset, delay
}

func (n *network) draw() float64 {
	n.drawMu.Lock()
	defer n.drawMu.Unlock()
	return n.random.Float64()
}

// apply puts effects in force, and returns what ends them.
func (n *network) apply(effects ...*effect) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.effects = append(n.effects, effects...)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		var left []*effect
		for _, e := range n.effects {
			keep := true
			for _, ended := range effects {
				keep = keep && e != ended
			}
			if keep {
				left = append(left, e)
			}
		}
		n.effects = left
	}
}

// hostSet is the set of some hosts.
func hostSet(hosts ...*host) (set uint32) {
	for _, h := range hosts {
		set |= 1 << h.index
	}
	return set
}

// resets are the TCP segments that end the connection of a packet at both of its ends: back to its sender, and on to its receiver.
// A RST is believed if its number is the next that the receiver waits for.
func resets(packet []byte) (back, on []byte) {
	header := int(packet[0]&15) * 4
	if packet[9] != unix.IPPROTO_TCP || len(packet) < header+20 {
		return nil, nil
	}
	tcp := packet[header:]
	const fin, syn, rst, ack = 1, 2, 4, 16
	flags := tcp[13]
	if flags&rst != 0 {
		return nil, nil
	}
	seq, acked := binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])
	source, destination := packet[12:16], packet[16:20]
	back = segment(destination, source, tcp[2:4], tcp[0:2], acked, 0, rst)
	if flags&ack == 0 { // a SYN: refused
		back = segment(destination, source, tcp[2:4], tcp[0:2], 0, seq+1, rst|ack)
	}
	return back, segment(source, destination, tcp[0:2], tcp[2:4], seq, 0, rst)
}

// segment is an IPv4 packet with a TCP segment without data.
func segment(source, destination, sourcePort, destinationPort []byte, seq, acked uint32, flags byte) []byte {
	p := make([]byte, 40)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(p[2:], 40)
	copy(p[12:], source)
	copy(p[16:], destination)
	binary.BigEndian.PutUint16(p[10:], checksum(0, p[:20]))
	copy(p[20:], sourcePort)
	copy(p[22:], destinationPort)
	binary.BigEndian.PutUint32(p[24:], seq)
	binary.BigEndian.PutUint32(p[28:], acked)
	p[32], p[33] = 5<<4, flags
	pseudo := uint32(unix.IPPROTO_TCP) + 20
	for i := 12; i < 20; i += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	binary.BigEndian.PutUint16(p[36:], checksum(pseudo, p[20:]))
	return p
}

// checksum is the Internet checksum of an even number of bytes.
func checksum(sum uint32, data []byte) uint16 {
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
