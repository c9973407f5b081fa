package proxy

import (
	"strconv"
	"time"

	"redlockd/redlock/resp"
)

// Commands that are answered at once and touch nothing: what clients send to see whether a server is
// there, and what has one answer only (always). A proxy-only command that is alone in its group goes
// here.

// redisVersion is the version of Redis whose behaviour these commands show, as HELLO and INFO announce
// it. Clients choose their commands by it: 7.2 is the first with CLIENT SETINFO and NO-TOUCH, 7.4 the
// first with which redis-py turns its client-side cache on, which needs no more of CLIENT TRACKING than
// there is here. From 8.4 on lock libraries send DELEX and SET … IFEQ in place of scripts. These work
// here, but other commands of 8.4 do not.
const redisVersion = "7.4.0"

// cmdPING is PING [message]. It says that this server lives, not that a quorum of masters does: /readyz
// says that.
func cmdPING(s *session, c *call) error {
	switch {
	case len(c.args) > 2:
		return errorf("ERR wrong number of arguments for 'ping' command")
	case c.proto == 2 && s.subscriptions.count() > 0:
		// A subscribed RESP2 client takes arrays for messages, and would take +PONG for an error.
		c.out = resp.AppendArray(c.out, 2)
		c.out = resp.AppendBulkString(c.out, "pong")
		if len(c.args) == 1 {
			c.out = resp.AppendBulkString(c.out, "")
		} else {
			c.out = resp.AppendBulk(c.out, c.args[1])
		}
	case len(c.args) == 1:
		c.out = resp.AppendStatus(c.out, "PONG")
	default:
		c.out = resp.AppendBulk(c.out, c.args[1])
	}
	return nil
}

func cmdECHO(_ *session, c *call) error {
	c.out = resp.AppendBulk(c.out, c.args[1])
	return nil
}

// databases is how many of them SELECT knows, as many as a Redis has by default.
const databases = 16

// cmdSELECT accepts each database and changes nothing: all of them share the keys of database 0. So
// locks of clients that have selected different databases exclude each other, which is safe.
func cmdSELECT(_ *session, c *call) error {
	index, ok := resp.ParseInt(c.args[1])
	switch {
	case !ok:
		return errNotInteger
	case index != int64(int32(index)):
		return errorf("ERR value is out of range, value must between -2147483648 and 2147483647")
	case index < 0 || index >= databases:
		return errorf("ERR DB index is out of range")
	}
	return c.ok()
}

// cmdTIME answers this machine's clock, as two strings.
func cmdTIME(_ *session, c *call) error {
	now := time.Now()
	return c.reply(array{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)})
}

// cmdWAIT answers at once what Redis answers when no replica acknowledges within the timeout. A caller
// that insists on one replica learns that it did not get it; a caller that only logs the number goes
// on. Nothing is lost by it: a reply of LOCK already means that a quorum of masters has the lock.
func cmdWAIT(_ *session, c *call) error {
	if _, ok := resp.ParseInt(c.args[1]); !ok {
		return errNotInteger
	}
	timeout, ok := resp.ParseInt(c.args[2])
	switch {
	case !ok:
		return errorf("ERR timeout is not an integer or out of range")
	case timeout < 0:
		return errorf("ERR timeout is negative")
	}
	return c.reply(0)
}

// always is the handler of a command that has one answer only, a value or an error.
func always(answer any) func(*session, *call) error {
	return func(_ *session, c *call) error {
		if err, ok := answer.(error); ok {
			return err
		}
		return c.reply(answer)
	}
}

const (
	// errNoCluster has Redis's words: clients find out by them that this is a single instance.
	errNoCluster replyError = "ERR This instance has cluster support disabled"
	// noPause is a format, for CLIENT PAUSE and UNPAUSE.
	noPause = "ERR CLIENT %s is not served: locks run out while their holders are kept waiting. " +
		"To take this server out of service, end it: it drains first"
	errNoRewrite replyError = "ERR CONFIG REWRITE is not served: config.toml is written by people, and CONFIG RELOAD reads it"
)
