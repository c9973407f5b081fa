package sandbox

import (
	"fmt"
	"strings"

	"redlockd/redlock/resp"
)

// version is what redis.REDIS_VERSION tells a script.
const (
	version    = "7.0.15"
	versionNum = 7<<16 | 0<<8 | 15
)

func redisLibrary() *table {
	fields := map[string]value{"REDIS_VERSION": version, "REDIS_VERSION_NUM": float64(versionNum)}
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		fields[name] = float64(i)
	}
	for name, n := range map[string]float64{"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3} {
		fields[name] = n
	}
	return library(map[string]func(c *call) int{
		"call":               redisCall,
		"pcall":              func(c *call) int { return c.result(c.m.value(c.m.command(c))) },
		"error_reply":        func(c *call) int { return singleField(c, "err") },
		"status_reply":       func(c *call) int { return singleField(c, "ok") },
		"sha1hex":            redisSha1hex,
		"log":                redisLog,
		"setresp":            redisSetresp,
		"set_repl":           redisSetRepl,
		"replicate_commands": func(c *call) int { return c.result(true) },
	}, fields)
}

func redisCall(c *call) int {
	reply := c.m.command(c)
	v := c.m.value(reply)
	if reply.Kind == resp.Error {
		c.m.throw(v)
	}
	return c.result(v)
}

// command has the caller execute the command on Lua's stack.
func (m *machine) command(c *call) resp.Value {
	n := c.top()
	if n == 0 {
		return resp.Value{Kind: resp.Error, Text: "ERR Please specify at least one argument for this redis lib call"}
	}
	if cap(m.args) < n {
		m.charge(n * stringBytes)
		m.args = make([]string, 0, n)
	}
	m.args = m.args[:0]
	for i := 1; i <= n; i++ {
		switch v := c.get(i).(type) {
		case string:
			m.chargeLong(v)
			m.args = append(m.args, v)
		case float64:
			m.args = append(m.args, m.numberString(v, 17))
		default:
			return resp.Value{Kind: resp.Error, Text: "ERR Lua redis lib command arguments must be strings or integers"}
		}
	}
	if m.calls--; m.calls < 0 {
		m.end(&LimitError{fmt.Sprintf("script stopped: it would call more than %d commands", m.limits.Calls)})
	}
	reply, err := m.caller.Call(m.args)
	if err != nil {
		m.end(err)
	}
	m.chargeReply(reply)
	return reply
}

// chargeLong counts a text that the Caller gets or has made. For short ones the call itself is counted.
func (m *machine) chargeLong(text string) {
	if len(text) > 64 {
		m.charge(len(text))
	}
}

func (m *machine) chargeReply(r resp.Value) {
	m.chargeLong(r.Text)
	if len(r.Elems) > 0 {
		m.charge(tableBytes + len(r.Elems)*replyBytes)
		for _, e := range r.Elems {
			m.chargeReply(e)
		}
	}
}

// singleField is redis.error_reply and redis.status_reply.
func singleField(c *call, name string) int {
	text, ok := c.get(1).(string)
	if !ok || c.top() != 1 {
		return c.result(c.m.holder("err", "ERR wrong number or type of arguments"))
	}
	if name == "err" {
		text = c.m.errorMessage(text)
	}
	return c.result(c.m.holder(name, text))
}

// errorMessage gives an error that is one word the code ERR, and takes a leading minus away.
func (m *machine) errorMessage(text string) string {
	text = strings.TrimPrefix(text, "-")
	if strings.Contains(text, " ") {
		return text
	}
	b := builder{m: m}
	b.text("ERR ")
	b.text(text)
	return b.string()
}

func redisSha1hex(c *call) int {
	if c.top() != 1 {
		c.m.raiseReply("ERR wrong number of arguments")
	}
	text, _ := c.m.concatText(c.get(1)) // of what is neither a string nor a number it is that of nothing
	c.m.step(len(text) / 16)
	c.m.charge(len(text) + shaBytes)
	return c.result(SHA(text))
}

// shaBytes is what SHA takes beside a copy of the text.
const shaBytes = 128

// raiseReply raises an error reply.
func (m *machine) raiseReply(message string) { m.throw(m.holder("err", message)) }

// redisLog checks its arguments and writes nothing.
func redisLog(c *call) int {
	level, isNumber := c.get(1).(float64)
	switch {
	case c.top() < 2:
		c.m.raiseReply("ERR redis.log() requires two arguments or more.")
	case !isNumber:
		c.m.raiseReply("ERR First argument must be a number (log level).")
	case level < 0 || level > 3:
		c.m.raiseReply("ERR Invalid debug level.")
	}
	return 0
}

// redisSetresp takes 2, which is how replies look here.
func redisSetresp(c *call) int {
	if c.top() != 1 {
		c.m.raiseReply("ERR redis.setresp() requires one argument.")
	}
	switch n, _ := toNumber(c.m, c.get(1)); n {
	case 2:
	case 3:
		c.m.end(&unavailableError{"redis.setresp(3)"})
	default:
		c.m.raiseReply("ERR RESP version must be 2 or 3.")
	}
	return 0
}

// redisSetRepl checks its argument: there is nothing to replicate to.
func redisSetRepl(c *call) int {
	if c.top() != 1 {
		c.m.raiseReply("ERR redis.set_repl() requires two arguments.")
	}
	if n, ok := toNumber(c.m, c.get(1)); !ok || n < 0 || n > 3 {
		c.m.raiseReply("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}
