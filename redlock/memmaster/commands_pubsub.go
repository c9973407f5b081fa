package memmaster

import (
	"slices"

	"redlockd/redlock/resp"
)

// cmdSUBSCRIBE answers once for each channel, also for one that the client has subscribed to before.
func cmdSUBSCRIBE(c *client, args [][]byte) {
	for _, arg := range args[1:] {
		channel := string(arg)
		if _, ok := c.channels[channel]; !ok {
			if c.channels == nil {
				c.channels = map[string]struct{}{}
			}
			c.channels[channel] = struct{}{}
			c.m.channels[channel] = append(c.m.channels[channel], c)
		}
		c.array(3)
		c.texts("subscribe", channel)
		c.integer(int64(len(c.channels)))
	}
}

// unsubscribeAll is for a connection that ends: there is no UNSUBSCRIBE.
func (c *client) unsubscribeAll() {
	for channel := range c.channels {
		rest := slices.DeleteFunc(c.m.channels[channel], func(other *client) bool { return other == c })
		if len(rest) == 0 {
			delete(c.m.channels, channel)
		} else {
			c.m.channels[channel] = rest
		}
	}
	c.channels = nil
}

// cmdPUBLISH answers how many were subscribed. One that has been cut off for reading nothing counts, as
// in Redis.
func cmdPUBLISH(c *client, args [][]byte) {
	to := slices.Clone(c.m.channels[string(args[1])]) // a slow one may be dropped on the way
	for _, subscriber := range to {
		b := resp.AppendBulkString(resp.AppendArray(nil, 3), "message")
		b = resp.AppendBulk(b, args[1])
		b = resp.AppendBulk(b, args[2])
		c.m.push(subscriber, b)
	}
	c.integer(int64(len(to)))
}
