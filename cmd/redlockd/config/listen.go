package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const (
	// listenMax bounds the addresses of server.listen.
	listenMax = 16
	// socketPathMax is how many bytes the path of a unix socket can have: struct sockaddr_un of Linux
	// has room for one more, which is 0. Other systems have 103.
	socketPathMax = 107
)

// SocketPath returns the path of an address that is a unix socket: unix:/run/redlockd.sock, or the path
// alone.
func SocketPath(addr string) (path string, ok bool) {
	path = strings.TrimPrefix(addr, "unix:")
	return path, strings.HasPrefix(addr, "unix:") || strings.HasPrefix(addr, "/")
}

// HealthSocket is where a server says that it is alive, to `ping --inside`: an abstract unix socket, because the file system of a container may be read-only,
// and called by the mount namespace, because each container has one of its own, also where it shares the network with others. Empty: only Linux has such sockets.
func HealthSocket() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	namespace, _ := os.Readlink("/proc/self/ns/mnt") // where the kernel shows none, there is no other
	return "@redlockd/health/" + namespace
}

// Alive is what the server says there.
const Alive = "alive\n"

// SocketMode is the mode of the files of unix sockets.
func (c *Config) SocketMode() fs.FileMode {
	mode, _ := strconv.ParseUint(c.socketMode, 8, 9) // checkSocket has done so before
	return fs.FileMode(mode)
}

// checkListen checks the addresses.
func (c *Config) checkListen() error {
	var errs []error
	if n := len(c.Listen); n == 0 || n > listenMax {
		errs = append(errs, c.errorAt("server.listen", fmt.Errorf("there are %d addresses, 1 … %d are possible", n, listenMax)))
	}
	for i, addr := range c.Listen {
		path, isSocket := SocketPath(addr)
		if isSocket {
			errs = append(errs, c.checkSocketPath(path))
		} else {
			errs = append(errs, c.checkAddress("server.listen", addr, "6380", ", or unix:/path of a socket"))
		}
		if slices.Contains(c.Listen[:i], addr) && !strings.HasSuffix(addr, ":0") {
			errs = append(errs, c.errorAt("server.listen", fmt.Errorf("%s is named twice", addr)))
		}
	}
	if mode, err := strconv.ParseUint(c.socketMode, 8, 9); err != nil || mode&0o600 != 0o600 {
		errs = append(errs, c.errorAt("server.socket_mode", fmt.Errorf(`%q is no mode from "0600" to "0777"`, c.socketMode)))
	}
	if c.HTTPListen != "" {
		errs = append(errs, c.checkAddress("http.listen", c.HTTPListen, "9121", ""))
	}
	return errors.Join(errs...)
}

func (c *Config) checkSocketPath(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return c.errorAt("server.listen", fmt.Errorf("unix:%s is no absolute path: unix:/run/redlockd/redlockd.sock is the form", path))
	case len(path) > socketPathMax:
		return c.errorAt("server.listen", fmt.Errorf("the path of the unix socket has %d bytes, at most %d are possible", len(path), socketPathMax))
	}
	return nil
}

// checkAddress checks host:port. usual is the port there, others are what else is possible.
func (c *Config) checkAddress(setting, addr, usual, others string) error {
	_, port, err := net.SplitHostPort(addr)
	_, isSocket := SocketPath(addr)
	if isSocket {
		others = ", and no unix socket"
	}
	if err != nil || isSocket {
		return c.errorAt(setting, fmt.Errorf("%q is no address: host:port is needed, or :port for all addresses of this machine%s%s",
			addr, others, didYouMean(meantAddress(addr, usual, ""))))
	}
	if err := checkPort(port); err != nil {
		return c.errorAt(setting, err)
	}
	return nil
}

// CheckServed refuses what only a server can do wrong. Only serve calls it, because check and run read
// the same file and do not listen. addrs are the addresses on which it listens: c.Listen, or those that
// a service manager has opened. web is that of HTTP; empty: none.
//
// Without masters it serves only if nothing at all is configured, or if the embedded ones are named, and
// then this machine alone. Otherwise two servers whose masters were forgotten would grant the same lock.
//
// protected_mode, as in Redis, refuses a server that other machines can reach without a login. Redis
// starts, and answers clients of other machines with -DENIED. redlockd does not start, so that the
// operator who starts it reads the reason, and not a client that connects later. Client certificates
// count as a login: tls_client_ca has to sign them.
func (c *Config) CheckServed(addrs []string, web string) error {
	i := slices.IndexFunc(addrs, func(addr string) bool { return !onlyHere(addr) })
	inside := len(c.Engine.Masters) == 0
	const forTrying = "embedded masters are for trying, and other machines can reach %s: listen on 127.0.0.1 or a unix socket, or name independent Redis masters"
	switch {
	case inside && c.named && !c.masters.embedded():
		return c.errorAt("masters", errors.New(`none are named: give the addresses of independent Redis masters (--masters host:port,… or masters = ["host:port", …] in the file), `+
			`or, to try redlockd with five inside its process, masters = "embedded" (--masters embedded, REDLOCKD_MASTERS=embedded)`))
	case inside && i >= 0:
		return c.errorAt("server.listen", fmt.Errorf(forTrying, addrs[i]))
	case inside && web != "" && !onlyHere(web):
		return c.errorAt("http.listen", fmt.Errorf(forTrying, web))
	case !c.protected || len(c.users) > 0 || c.tls.clientCA != "" || i < 0:
		return nil
	}
	return c.errorAt("server.listen", fmt.Errorf("protected mode: other machines can reach %s, and nobody has to log in there. "+
		"Name users in [auth] (or tls_client_ca in [server], then clients must show certificates); or, if everybody who can reach it may take and release "+
		"every lock, set protected_mode = false in [server] (%s=false)", addrs[i], c.Find("server.protected_mode").Environment()))
}

// onlyHere tells whether an address to listen on can be reached from this machine alone.
func onlyHere(addr string) bool {
	if _, isSocket := SocketPath(addr); isSocket {
		return true
	}
	host, _, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
