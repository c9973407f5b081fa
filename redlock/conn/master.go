package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
)

// Master says how one of the independent Redis masters is reached.
type Master struct {
	// Addr is host:port, or the path of a unix socket when it begins with a slash.
	Addr string
	// Username and Password log in with AUTH. Empty: no AUTH is sent. They go to Addr and NewAddr only: at
	// another address that the membership has for the master, those of Options.Common do.
	Username, Password string
	// NewAddr is another address, which a change of the membership gives the master (MemberChange.Addr),
	// and which no other one of the options has. Empty: none.
	NewAddr string
	// DB is the database number, 0 by default. It belongs to the address: the membership has both.
	DB int
	// TLS, when not nil, encrypts the connection.
	TLS *tls.Config
	// Name tells the master apart from the others for all proxies, where they reach it by different
	// addresses. Empty: Addr.
	Name string
	// Dialer makes the connection to Addr; nil means the network. Masters inside the process set it.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// SameClock says that the master expires keys by this process's monotonic clock, as masters inside the
	// process do. Then its clock cannot be out of step, and is not watched.
	SameClock bool

	// withheldFrom is the address that Username and Password of the options are for, where they are not
	// sent to Addr; "": they are, or there are none.
	withheldFrom string
}

// Inside tells whether the master is inside this process: it has no settings and no address of its own,
// and no command of redlockd reaches it.
func (m Master) Inside() bool { return m.SameClock }

// SeatName is what the seat of the master is called.
func (m Master) SeatName() string { return cmp.Or(m.Name, m.Addr) }

// Withhold notes that the password of the options is for that address, and is not sent to Addr.
func (m *Master) Withhold(from string) { m.withheldFrom = from }

// FullAddr is where the master is: its address and database.
func (m Master) FullAddr() string { return JoinAddr(m.Addr, m.DB) }

// SeatAddr is the address of the master in the membership. One that has a name may be reached by
// different addresses: there the name stands for them, until an operator gives the seat an address.
func (m Master) SeatAddr() string { return JoinAddr(m.SeatName(), m.DB) }

// SplitAddr splits an address as the membership has it: "10.0.0.3:6379" is database 0 there, and
// "10.0.0.3:6379/3" database 3. named is false where the text names no database.
func SplitAddr(text string) (addr string, db int, named bool) {
	i := strings.LastIndexByte(text, '/')
	if i <= 0 {
		return text, 0, false
	}
	n, err := strconv.ParseUint(text[i+1:], 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != text[i+1:] {
		return text, 0, false
	}
	return text[:i], int(n), true
}

// JoinAddr is the opposite of SplitAddr.
func JoinAddr(addr string, db int) string {
	if db == 0 {
		return addr
	}
	return addr + "/" + strconv.Itoa(db) //mutant:the-record-has-no-database
}
