package member

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// Where a master is: its address and, of the databases there, one. The membership keeps both in one
// text, so that no two redlockds lock in different databases of the same masters. And which password
// goes to which address.

// isNameOf tells whether an address in the membership is what the seat is called after, in whichever
// database.
func isNameOf(seatAddr string, s *Seat) bool {
	addr, _, _ := conn.SplitAddr(seatAddr)
	return addr == s.Name
}

// SeatAddrOf is the address in the membership that an operator means for a seat. Where it names no
// database, it is that of the options.
func (o Options) SeatAddrOf(name, addr string) string {
	addr, db, named := conn.SplitAddr(addr)
	if !named {
		db = o.Common.DB
		if m := o.masterOf(name, addr); m != nil {
			db = m.DB
		}
	}
	return conn.JoinAddr(addr, db)
}

// masterOf is the one that the options name for a seat, given its name and the address in the
// membership; nil: none. Where the options give no name, the address counts; last, that one after which
// the seat is called, at which its first master was.
func (o Options) masterOf(name, seatAddr string) *conn.Master {
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

// seatOf is the seat that the options mean by a master, by the same rule; nil: none.
func (r *Record) seatOf(m conn.Master) *Seat {
	at := func(s *Seat) bool { addr, _, _ := conn.SplitAddr(s.Addr); return m.Name == "" && addr == m.Addr }
	return cmp.Or(r.seatWhere(at), r.SeatNamed(m.SeatName()))
}

// MasterAt is how the master of a seat is reached, given the name and the address in the membership. A
// master's own password goes only to an address that the options name for it, because anybody who
// writes to the masters can name another one in the membership. There Common must do.
func (o Options) MasterAt(name, seatAddr string) conn.Master {
	addr, db, _ := conn.SplitAddr(seatAddr)
	named := o.masterOf(name, seatAddr)
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

// placesOf are the masters of a record, by the numbers of their seats.
func (o Options) placesOf(r *Record) map[int]conn.Master {
	places := make(map[int]conn.Master)
	for s := range r.seats() {
		places[s.Number] = o.MasterAt(s.Name, s.Addr)
	}
	return places
}

// otherDB says that the options name a master of the record in another database than the record; "":
// they name none so.
func (o Options) otherDB(r *Record) string {
	for s := range r.seats() {
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

// fleetInOtherDB says which fleet has its membership in another database of the same Redis; "": none
// that this user may see. Messages between redlockds reach all databases, so a Redis belongs to one
// fleet.
func fleetInOtherDB(ctx context.Context, l *conn.Conn, m conn.Master, timeout time.Duration) string {
	keyspace, _ := l.Redis.Info(ctx, "keyspace").Result()
	dbs := conn.ParseInfo(keyspace)
	delete(dbs, fmt.Sprint("db", m.DB))
	if len(dbs) == 0 {
		return ""
	}
	link, err := conn.Dial(ctx, m, timeout) // of its own, because it must not stay in another database
	if err != nil {
		return ""
	}
	defer link.Close()
	for _, name := range slices.Sorted(maps.Keys(dbs)) {
		db, err := strconv.Atoi(strings.TrimPrefix(name, "db"))
		if err != nil || link.Redis.Select(ctx, db).Err() != nil {
			continue
		}
		// A membership that has no seat in the database where it stands has got there by SWAPDB.
		inIt := func(one Seat) bool { _, of, _ := conn.SplitAddr(one.Addr); return of == db }
		if r, err := ParseRecord(link.Redis.HGet(ctx, lua.MembersKey, "r").Val()); err == nil && slices.ContainsFunc(r.Seats, inIt) { //mutant:two-fleets-in-one-redis
			return fmt.Sprintf("its database %d has the membership of a fleet, whose masters are %s, and database %d has none: a Redis serves one fleet; "+
				"write db = %[1]d to join that one, or name another master; if that fleet is gone, run FLUSHALL on this one", db, seatNames(r), m.DB)
		}
	}
	return ""
}
