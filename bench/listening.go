package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// awaitListening returns when the process itself listens at addr, host:port. A free port can be taken by somebody else
// before our server binds it; asking the kernel who listens sends that somebody nothing.
func awaitListening(ctx context.Context, pid int, addr string, ended <-chan struct{}) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	for {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return fmt.Errorf("find out who listens: %w", err)
		}
		inode := listenerAt(string(table), at)
		if inode != "" && hasSocket(pid, inode) {
			return nil
		}
		select {
		case <-ended:
			if inode != "" {
				return errors.New("it ended at once: another process listens on its port")
			}
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not listen: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// listenerAt finds the socket that listens at an address of IPv4 in the text of proc_net_tcp(5), by its inode; empty: none.
func listenerAt(table string, at netip.AddrPort) string {
	const listening = "0A"
	ip := at.Addr().As4()
	want := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), at.Port()) // the address is a number of the host
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 9 && fields[1] == want && fields[3] == listening {
			return fields[9]
		}
	}
	return ""
}

// hasSocket tells whether the process has the socket open.
func hasSocket(pid int, inode string) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	files, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	for _, file := range files {
		if to, err := os.Readlink(filepath.Join(dir, file.Name())); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
