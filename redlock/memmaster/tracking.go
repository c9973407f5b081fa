package memmaster

import (
	"slices"

	"redlockd/redlock/resp"
)

// Client-side caching: when a key changes that a client has read which has CLIENT TRACKING on, a
// message of the channel invalidateChannel goes once to the connection that REDIRECT names.

const invalidateChannel = "__redis__:invalidate"

// trackedKeysMax bounds the table, as Redis's tracking-table-max-keys does. A key too many is announced
// as changed and forgotten.
const trackedKeysMax = 1 << 20

// tracking is what CLIENT TRACKING set for a client.
type tracking struct {
	on bool
	// noLoop: the client is not told of its own changes.
	noLoop bool
	// optIn: only what the command after CLIENT CACHING YES reads is tracked.
	optIn bool
	// redirectTo is the id of the client that gets the messages. 0 is nobody, because RESP2 has no message
	// without a channel.
	redirectTo int64
}

// trackerID is the id of a client that is told. It may have gone since.
type trackerID int64

func cmdCLIENTTRACKING(c *client, args [][]byte) {
	var t tracking
	switch {
	case is(args[2], "ON"):
		t.on = true
	case !is(args[2], "OFF"):
		c.fail(errSyntax)
		return
	}
	for i := 3; i < len(args); i++ {
		switch {
		case is(args[i], "NOLOOP"):
			t.noLoop = true
		case is(args[i], "OPTIN"):
			t.optIn = true
		case is(args[i], "REDIRECT") && i+1 < len(args):
			i++
			id, ok := resp.ParseInt(args[i])
			if !ok {
				c.fail(errNotInt)
				return
			}
			if c.m.clients[id] == nil {
				c.fail("ERR The client ID you want redirect to does not exist")
				return
			}
			t.redirectTo = id
		default:
			c.fail(errSyntax)
			return
		}
	}
	if t.on {
		c.tracking = t
	} else {
		c.tracking = tracking{}
	}
	c.ok()
}

// cmdCLIENTCACHING is CLIENT CACHING YES.
func cmdCLIENTCACHING(c *client, args [][]byte) {
	switch {
	case !c.tracking.on || !c.tracking.optIn:
		c.fail("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case !is(args[2], "YES"):
		c.fail("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	default:
		c.caching = 2 // this command and the next
		c.ok()
	}
}

// track remembers that a client has read keys.
func (m *Master) track(c *client, keys [][]byte) {
	for _, key := range keys {
		who := m.tracked[string(key)]
		if slices.Contains(who, trackerID(c.id)) {
			continue
		}
		if who == nil && len(m.tracked) >= trackedKeysMax {
			for other := range m.tracked {
				m.invalidate(other)
				break
			}
		}
		m.tracked[string(key)] = append(who, trackerID(c.id))
	}
}

// invalidate tells those who have read a key that it has changed, and forgets them.
func (m *Master) invalidate(key string) {
	who, ok := m.tracked[key]
	if !ok {
		return
	}
	delete(m.tracked, key)
	keys := resp.AppendBulkString(resp.AppendArray(nil, 1), key)
	for _, id := range who {
		if c := m.clients[int64(id)]; c != nil && !(c.tracking.noLoop && c == m.running) {
			m.sendInvalidation(c, keys)
		}
	}
}

// keyChanged is told of every change of a key by the store.
func (m *Master) keyChanged(key string) {
	if len(m.tracked) > 0 {
		m.invalidate(key)
	}
}

// trackFlush tells every tracking client that all keys are gone.
func (m *Master) trackFlush() {
	clear(m.tracked)
	for _, c := range m.allClients() {
		m.sendInvalidation(c, resp.AppendNull(nil, 2))
	}
}

// sendInvalidation sends the keys, which are RESP already, on behalf of a tracking client.
func (m *Master) sendInvalidation(c *client, keys []byte) {
	// The one that REDIRECT names may have gone, or have unsubscribed: Redis tells nobody then, either.
	to := m.clients[c.tracking.redirectTo]
	if !c.tracking.on || to == nil || len(to.channels) == 0 {
		return
	}
	b := resp.AppendBulkString(resp.AppendArray(nil, 3), "message")
	m.push(to, append(resp.AppendBulkString(b, invalidateChannel), keys...))
}
