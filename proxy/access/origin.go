package access

import (
	"net/netip"
)

// OriginOf is what limits by address take for one client, whose address is in the form IP:port: an IPv4
// address, or the /64 network that one IPv6 customer gets. Clients without an address (unix sockets)
// have one origin together.
func OriginOf(addr string) netip.Prefix {
	parsed, err := netip.ParseAddrPort(addr)
	if err != nil {
		return netip.Prefix{}
	}
	ip := parsed.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	origin, _ := ip.Prefix(bits)
	return origin
}
