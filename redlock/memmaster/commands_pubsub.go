package memmaster

import (
	"maps"
	"slices"

	"github.com/tidwall/redcon"
)

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
		c.message("subscribe")
		c.bulkString(channel)
		c.integer(int64(len(c.channels)))
	}
}

func cmdUNSUBSCRIBE(c *client, args [][]byte) {
	channels := slices.Sorted(maps.Keys(c.channels)) // without arguments: all
	if len(args) > 1 {
		channels = channels[:0]
		for _, arg := range args[1:] {
			channels = append(channels, string(arg))
		}
	}
	for _, channel := range channels {
		c.unsubscribe(channel)
		c.message("unsubscribe")
		c.bulkString(channel)
		c.integer(int64(len(c.channels)))
	}
	if len(channels) == 0 {
		c.message("unsubscribe")
		c.null()
		c.integer(0)
	}
}

// message begins a message of three elements.
func (c *client) message(kind string) {
	c.header(pushType(c), 3)
	c.bulkString(kind)
}

// pushType is the RESP type of a message: RESP2 has none of its own.
func pushType(c *client) byte {
	if c.resp == 3 {
		return '>'
	}
	return '*'
}

func (c *client) unsubscribe(channel string) {
	if _, ok := c.channels[channel]; !ok {
		return
	}
	delete(c.channels, channel)
	rest := slices.DeleteFunc(c.m.channels[channel], func(other *client) bool { return other == c })
	if len(rest) == 0 {
		delete(c.m.channels, channel)
	} else {
		c.m.channels[channel] = rest
	}
}

func (c *client) unsubscribeAll() {
	for channel := range c.channels {
		c.unsubscribe(channel)
	}
}

func cmdPUBLISH(c *client, args [][]byte) {
	to := slices.Clone(c.m.channels[string(args[1])]) // a slow one may be dropped on the way
	for _, subscriber := range to {
		b := appendHeader(nil, pushType(subscriber), 3)
		b = redcon.AppendBulkString(b, "message")
		b = redcon.AppendBulk(b, args[1])
		b = redcon.AppendBulk(b, args[2])
		c.m.push(subscriber, b)
	}
	c.integer(int64(len(to)))
}
