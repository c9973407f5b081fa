package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"redlockd/cmd/redlockd/config"
)

// openListeners opens all addresses of server.listen, or none.
func openListeners(c *config.Config) (all []net.Listener, err error) {
	for _, addr := range c.Listen {
		l, err := listen(c, "server.listen", addr)
		if err != nil {
			closeListeners(all)
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func closeListeners(all []net.Listener) {
	for _, l := range all {
		l.Close()
	}
}

// listen opens the address. setting is where it was configured.
func listen(c *config.Config, setting, addr string) (net.Listener, error) {
	var l net.Listener
	var err error
	if path, ok := config.SocketPath(addr); ok {
		l, err = listenSocket(path, c.SocketMode(), c.SocketOwner)
	} else {
		l, err = net.Listen("tcp", addr)
	}
	if err != nil {
		return nil, listenError(c.Find(setting), addr, err)
	}
	return l, nil
}

// listenError names the address, where it was chosen, and what to do when it is taken.
func listenError(s *config.Setting, addr string, err error) error {
	_, isSocket := config.SocketPath(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s (%s) is in use by another process: end that one, or choose another address with --%s", addr, s.Source(), s.Flag)
	case errors.Is(err, syscall.EACCES) && !isSocket:
		return fmt.Errorf("%s (%s): this user may not listen there: choose a port above 1023 with --%s, or give the process CAP_NET_BIND_SERVICE", addr, s.Source(), s.Flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s (%s) is no address of this machine: choose one with --%s, or :port for all of them", addr, s.Source(), s.Flag)
	default:
		return fmt.Errorf("listen on %s (%s): %w", addr, s.Source(), err)
	}
}

// socketListener is a unix socket whose file is removed with it.
type socketListener struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// listenSocket makes a unix socket. The file of a process that is gone is replaced. Nobody can connect
// before the file has its mode and its owner.
func listenSocket(path string, mode fs.FileMode, owner string) (net.Listener, error) {
	uid, gid, err := lookupOwner(owner)
	if err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The umask is that of the whole process, which makes no other files while it starts.
	before := syscall.Umask(0o777)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(before)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	made, err := os.Lstat(path)
	if owner != "" && err == nil {
		err = os.Lchown(path, uid, gid)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	s := &socketListener{l, path, made}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close removes the file, unless it is another one by now: that of a redlockd which was started after
// somebody had removed ours.
func (s *socketListener) Close() error {
	if now, err := os.Lstat(s.path); err == nil && s.made != nil && os.SameFile(now, s.made) && now.ModTime().Equal(s.made.ModTime()) { // numbers of files are used again
		os.Remove(s.path)
	}
	return s.UnixListener.Close()
}

// removeStale removes the file of a socket on which nobody listens any more. It leaves all other files,
// and returns an error then.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket: redlockd does not replace it; remove it, or choose another path")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
		return syscall.EADDRINUSE
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("there is a socket, and whether another process uses it cannot be found out: %w", err)
}

// lookupOwner reads user, user:group or :group as chown does: by names or numbers. -1 stands for what
// is left out.
func lookupOwner(owner string) (uid, gid int, err error) {
	uid, gid = -1, -1
	name, group, _ := strings.Cut(owner, ":")
	if name != "" {
		if uid, err = strconv.Atoi(name); err != nil {
			u, err := user.Lookup(name)
			if err != nil {
				return 0, 0, fmt.Errorf("socket_owner: there is no user %q", name)
			}
			uid, _ = strconv.Atoi(u.Uid)
		}
	}
	if group != "" {
		if gid, err = strconv.Atoi(group); err != nil {
			g, err := user.LookupGroup(group)
			if err != nil {
				return 0, 0, fmt.Errorf("socket_owner: there is no group %q", group)
			}
			gid, _ = strconv.Atoi(g.Gid)
		}
	}
	return uid, gid, nil
}
