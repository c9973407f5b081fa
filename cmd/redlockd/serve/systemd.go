package serve

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Implements the two protocols of service managers, as sd_notify(3), sd_watchdog_enabled(3) and
// sd_listen_fds(3) describe them: messages on the socket $NOTIFY_SOCKET, and listeners that are open
// before the process starts ($LISTEN_FDS).
//
// Rejected: github.com/coreos/go-systemd. It needs as many lines around it, and passes over a
// descriptor that is no listener without a word.

// notifyTimeout bounds one message to the service manager, which may hang.
const notifyTimeout = time.Second

// notify sends lines to the service manager. Without one it does nothing. An error is of no use to
// anybody: the manager acts on what does not come.
func notify(lines ...string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // a name that begins with @ is an abstract one
	if err != nil {
		return
	}
	defer conn.Close()
	conn.SetWriteDeadline(time.Now().Add(notifyTimeout))
	conn.Write([]byte(strings.Join(lines, "\n")))
}

// notifyReloading says that a reload has begun. notify("READY=1") ends it.
func notifyReloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err == nil {
		notify("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
	}
}

// watchdogPause is the pause between two signs of life that the service manager asks for: half of its
// patience. 0: it asks for none.
func watchdogPause() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 || us > int64(24*time.Hour/time.Microsecond) {
		return 0
	}
	return time.Duration(us) * time.Microsecond / 2
}

// feedWatchdog gives signs of life until ctx ends. Each comes only after alive. If the engine or the
// server hangs, none comes any more, and the service manager restarts the process. Masters that do not
// answer are no reason: a restart would not help.
func (s *server) feedWatchdog(ctx context.Context) {
	every := watchdogPause()
	for every > 0 && pause(ctx, every) {
		s.alive()
		notify("WATCHDOG=1")
	}
}

// The first descriptor that a service manager passes on, and how many it may be.
const (
	listenFDsStart = 3
	listenFDsMax   = 64
)

// inherited are the listeners that the service manager has opened: for HTTP the one with
// FileDescriptorName=http, for clients all others. They take the place of server.listen and
// http.listen.
type inherited struct {
	clients []net.Listener
	web     net.Listener // nil: there is none
}

// inheritListeners takes over what the service manager has passed on to this process. A descriptor that
// is no listener is an error.
func inheritListeners() (all inherited, err error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return all, nil
	}
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 0 || n > listenFDsMax {
		return all, fmt.Errorf("LISTEN_FDS is %q: a number from 0 to %d is needed", os.Getenv("LISTEN_FDS"), listenFDsMax)
	}
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	for i := range n {
		fd := listenFDsStart + i
		syscall.CloseOnExec(fd)
		name := ""
		if i < len(names) {
			name = names[i]
		}
		f := os.NewFile(uintptr(fd), name)
		l, err := net.FileListener(f)
		f.Close()
		switch {
		case err != nil:
			return all, fmt.Errorf("descriptor %d (%s) of the service manager is no socket that accepts connections: ListenStream= is needed: %w", fd, name, err)
		case name != "http":
			all.clients = append(all.clients, l)
		case all.web != nil:
			return all, fmt.Errorf("the service manager passes on two listeners with FileDescriptorName=http: one is possible")
		default:
			all.web = l
		}
	}
	return all, nil
}

// addrs are the addresses for clients, for Config.CheckServed.
func (all inherited) addrs() (addrs []string) {
	for _, l := range all.clients {
		addr := l.Addr().String()
		if l.Addr().Network() == "unix" {
			addr = "unix:" + addr
		}
		addrs = append(addrs, addr)
	}
	return addrs
}
