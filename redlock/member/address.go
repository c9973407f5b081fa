package member

import (
	"cmp"
	"fmt"
	"slices"

	"redlockd/redlock/conn"
)

// Where a master is: its address and, of the databases there, one. The membership keeps both in one
// text, so that no two redlockds lock in different databases of the same masters. And which password
// goes to which address.

// IsNameOf tells whether an address in the membership is what the seat is called after, in whichever
// database.
func IsNameOf(seatAddr string, s *Seat) bool {
	addr, _, _ := conn.SplitAddr(seatAddr)
	return addr == s.Name
}

// SeatAddrOf is the address in the membership that an operator means for a seat. Where it names no
// database, it is that of the options.
func (o Options) SeatAddrOf(name, addr string) string {
	addr, db, named := conn.SplitAddr(addr)
	if !named {
		db = o.Common.DB
		if m := o.MasterOf(name, addr); m != nil {
			db = m.DB
		}
	}
	return conn.JoinAddr(addr, db)
}

// MasterOf is the one that the options name for a seat, given its name and the address in the
// membership; nil: none. Where the options give no name, the address counts; last, that one after which
// the seat is called, at which its first master was.
func (o Options) MasterOf(name, seatAddr string) *conn.Master {
	addr, _, _ := conn.SplitAddr(seatAddr)
	for _, match := range []func(m conn.Master) bool{
		func(m conn.Master) bool { return m.Name == name },
		func(m conn.Master) bool { return m.Name == "" && m.Addr == addr },
		func(m conn.Master) bool { return m.Name == "" && m.Addr == name },
	} {
		if i := slices.IndexFunc(o.Masters, match); i >= 0 {
			return &o.Masters[i]
		}
	}
	return nil
}

// SeatOf is the seat that the options mean by a master, by the same rule; nil: none.
func (r *Record) SeatOf(m conn.Master) *Seat {
	at := func(s *Seat) bool { addr, _, _ := conn.SplitAddr(s.Addr); return m.Name == "" && addr == m.Addr }
	return cmp.Or(r.SeatWhere(at), r.SeatNamed(m.SeatName()))
}

// MasterAt is how the master of a seat is reached, given the name and the address in the membership. A
// master's own password goes only to an address that the options name for it, because anybody who
// writes to the masters can name another one in the membership. There Common must do.
func (o Options) MasterAt(name, seatAddr string) conn.Master {
	addr, db, _ := conn.SplitAddr(seatAddr)
	named := o.MasterOf(name, seatAddr)
	like := o.Masters[0]
	if named != nil {
		like = *named
		if addr == name {
			addr = named.Addr
		}
	}
	m := conn.Master{Name: name, Addr: addr, DB: db, Dialer: like.Dialer, SameClock: like.SameClock,
		Username: o.Common.Username, Password: o.Common.Password, TLS: o.Common.TLS}
	for _, one := range o.Masters {
		if addr == one.Addr || addr == one.NewAddr { //mutant:a-password-goes-where-the-membership-says
			m.Username, m.Password, m.TLS = one.Username, one.Password, one.TLS
			return m
		}
	}
	if named != nil && (named.Username != m.Username || named.Password != m.Password) {
		m.Withhold(named.Addr)
	}
	return m
}

// Places are the masters that the options name, in their order.
func (o Options) Places() map[int]conn.Master {
	places := make(map[int]conn.Master)
	for i, m := range o.Masters {
		places[i] = m
	}
	return places
}

// PlacesOf are the masters of a record, by the numbers of their seats.
func (o Options) PlacesOf(r *Record) map[int]conn.Master {
	places := make(map[int]conn.Master)
	for s := range r.EachSeat() {
		places[s.Number] = o.MasterAt(s.Name, s.Addr)
	}
	return places
}

// OtherDB says that the options name a master of the record in another database than the record; "":
// they name none so.
func (o Options) OtherDB(r *Record) string {
	for s := range r.EachSeat() {
		at := o.MasterAt(s.Name, s.Addr)
		for _, one := range o.Masters {
			if one.Addr == at.Addr && one.DB != at.DB { //mutant:settings-with-another-database-join
				return fmt.Sprintf("the membership has %s (%s) in database %d, and the settings say db = %d: locks in two databases do not exclude each other; write db = %[3]d for it",
					conn.Sanitize(at.Name), conn.Sanitize(at.Addr), at.DB, one.DB)
			}
		}
	}
	return ""
}
