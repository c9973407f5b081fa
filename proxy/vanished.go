package proxy

import (
	"net"
	"time"
)

// A client whose machine dies, or that the network does not reach any more, closes nothing. Meanwhile
// it may be the first waiter for a lock and keep all others waiting, or its locks under HOLD are
// renewed. The kernel finds it out: with keepalive probes where nothing is on its way to the client,
// and by the user timeout where something is, which TCP would else repeat for a quarter of an hour
// before it gives up.

// keepAlive is for accepted connections. Together they are vanishedAfter.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// vanishedAfter is after what time a client has vanished of which nothing has come, although it had
// something to acknowledge. The user timeout also ends the connection of a client that lives and takes
// no bytes; that is for bounds.writeTimeout, which is shorter.
const vanishedAfter = 30 * time.Second

// noticeVanished has reads of the connection fail when its client has vanished.
func noticeVanished(c *net.TCPConn) {
	c.SetKeepAliveConfig(keepAlive)
	setUserTimeout(c, vanishedAfter)
}
