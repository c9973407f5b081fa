package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Implements the two protocols of service managers, as sd_notify(3), sd_watchdog_enabled(3) and
// sd_listen_fds(3) describe them: messages on the socket $NOTIFY_SOCKET, and listeners that are open
// before the process starts ($LISTEN_FDS). And the other end of ExecReload=, a socket in the directory
// of RuntimeDirectory=.
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

// statusMax bounds the text of a status: the service manager reads 4 KiB of a message.
const statusMax = 1000

// statusText is what systemctl status shows of the server, in one line.
type statusText struct {
	mu     sync.Mutex
	locks  string // whether they are granted; empty: not known yet
	reload string // what the last reload has not put into force; empty: nothing
}

func (s *statusText) setLocks(text string)  { s.set(&s.locks, text) }
func (s *statusText) setReload(text string) { s.set(&s.reload, text) }

// set changes a part of the status, and sends the whole.
func (s *statusText) set(part *string, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *part == text {
		return
	}
	*part = text
	all := cmp.Or(s.locks, "starting")
	if s.reload != "" {
		all += "; " + s.reload
	}
	all = strings.Join(strings.Fields(all), " ") // a new line would begin another message
	if len(all) > statusMax {
		all = all[:statusMax] + "…"
	}
	notify("STATUS=" + strings.ToValidUTF8(all, "�"))
}

// Reloads for the service manager. Its ExecReload= has to tell whether a reload has failed. Of a signal
// it learns nothing, and the files may name no password with which a client could log in. So the server
// listens on a socket that only root and its own user can open, and takes one command there.
//
// Rejected: Type=notify-reload. systemd 252 of Debian 12 does not know it. Where it is known, READY=1
// ends a reload whatever came of it: a server has no message for a reload that failed.
const reloadSocket = "reload.sock"

// reloadCommand is CONFIG RELOAD, as redlockd reload sends it.
const reloadCommand = "*2\r\n$6\r\nCONFIG\r\n$6\r\nRELOAD\r\n"

// reloadReadTimeout bounds the wait for the command on the socket.
const reloadReadTimeout = 5 * time.Second

// listenForReloads opens the socket in the first directory of RuntimeDirectory=. nil: there is none.
// The server runs without it.
func (s *server) listenForReloads() net.Listener {
	dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	if dir == "" {
		return nil
	}
	path := filepath.Join(dir, reloadSocket)
	l, err := listenSocket(path, 0o600, "")
	if err != nil {
		s.log.Warn("systemctl reload will fail: its socket cannot be opened", "path", path, "err", err,
			"to_do", "let redlockd make the file, then restart it; SIGHUP and redlockd reload work meanwhile")
		return nil
	}
	return l
}

// answerReloads takes one connection after the other, until l is closed.
func (s *server) answerReloads(l net.Listener) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no file can be opened at present
			time.Sleep(time.Second)
		default:
			s.answerReload(conn)
		}
	}
}

func (s *server) answerReload(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(reloadReadTimeout))
	command, n := make([]byte, len(reloadCommand)), 0
	for n < len(command) && strings.HasPrefix(reloadCommand, string(command[:n])) {
		more, err := conn.Read(command[n:])
		if n += more; err != nil {
			return
		}
	}
	reply := "-ERR only CONFIG RELOAD is taken here"
	if string(command) == reloadCommand {
		if changed, err := s.reload(); err != nil {
			reply = "-ERR nothing was changed: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		} else {
			reply = "+" + changed
		}
	}
	conn.SetDeadline(time.Now().Add(reloadReadTimeout)) // the files may have taken long
	io.WriteString(conn, strings.Join(strings.Fields(reply), " ")+"\r\n")
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
