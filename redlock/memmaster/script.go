package memmaster

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// scriptsMax bounds the script cache. At the bound the oldest script is forgotten, and its user gets NOSCRIPT.
const scriptsMax = 4096

// scripting is what a master keeps for scripts. There is one Lua state per master: scripts run with Master.mu held, so
// never two at a time.
type scripting struct {
	m      *Master
	lua    *lua.LState               // made for the first script; kept, as making one takes 100 times as long as a run
	cached map[string]*lua.LFunction // by SHA1, lower case
	order  []string                  // the keys of cached, oldest first

	client *client // executes the script's commands
	onErr  *lua.LFunction
	budget *budget

	// The running script.
	caller   *client
	sha      string
	readOnly bool
	failure  string   // what to answer after an error
	bytes    []byte   // arguments of a command
	args     [][]byte // the same, in pieces
}

func newScripting(m *Master) *scripting {
	return &scripting{m: m, cached: map[string]*lua.LFunction{}, client: &client{m: m, resp: 2}}
}

func cmdEVAL(c *client, args [][]byte)      { c.eval(args, false) }
func cmdEVALRO(c *client, args [][]byte)    { c.eval(args, true) }
func cmdEVALSHA(c *client, args [][]byte)   { c.evalSHA(args, false) }
func cmdEVALSHARO(c *client, args [][]byte) { c.evalSHA(args, true) }

const errNoScript = "NOSCRIPT No matching script. Please use EVAL."

func (c *client) eval(args [][]byte, readOnly bool) {
	keys, argv, ok := c.scriptArguments(args)
	if !ok {
		return
	}
	sha, fn, err := c.m.scripts.load(string(args[1]))
	if err != nil {
		c.fail(err.Error())
		return
	}
	c.m.scripts.run(c, fn, sha, keys, argv, readOnly)
}

func (c *client) evalSHA(args [][]byte, readOnly bool) {
	if len(args[1]) != 2*sha1.Size {
		c.fail(errNoScript)
		return
	}
	keys, argv, ok := c.scriptArguments(args)
	if !ok {
		return
	}
	sha := strings.ToLower(string(args[1]))
	fn := c.m.scripts.cached[sha]
	if fn == nil {
		c.fail(errNoScript)
		return
	}
	c.m.scripts.run(c, fn, sha, keys, argv, readOnly)
}

// scriptArguments splits what follows the script into keys and other arguments.
func (c *client) scriptArguments(args [][]byte) (keys, argv [][]byte, ok bool) {
	n, ok := parseInt(args[2])
	switch rest := args[3:]; {
	case !ok:
		c.fail(errNotInt)
	case n > int64(len(rest)):
		c.fail("ERR Number of keys can't be greater than number of args")
	case n < 0:
		c.fail("ERR Number of keys can't be negative")
	default:
		return rest[:n], rest[n:], true
	}
	return nil, nil, false
}

// load puts a script into the cache, if it is not there.
func (s *scripting) load(text string) (sha string, fn *lua.LFunction, err error) {
	sum := sha1.Sum([]byte(text))
	sha = hex.EncodeToString(sum[:])
	if fn = s.cached[sha]; fn != nil {
		return sha, fn, nil
	}
	proto, err := compile(text)
	if err != nil {
		return "", nil, errors.New("ERR Error compiling script (new function): " + err.Error())
	}
	if s.lua == nil {
		s.start()
	}
	if len(s.order) == scriptsMax {
		delete(s.cached, s.order[0])
		s.order = s.order[1:]
	}
	fn = s.lua.NewFunctionFromProto(proto)
	s.cached[sha] = fn
	s.order = append(s.order, sha)
	return sha, fn, nil
}

func compile(text string) (*lua.FunctionProto, error) {
	chunk, err := parse.Parse(strings.NewReader(text), chunkName)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, chunkName)
	if err != nil {
		return nil, err
	}
	// Without this every call builds the table "arg" of Lua 5.0, which costs more than the rest of a short script.
	proto.IsVarArg &^= lua.VarArgNeedsArg
	return proto, nil
}

func cmdSCRIPTLOAD(c *client, args [][]byte) {
	sha, _, err := c.m.scripts.load(string(args[2]))
	if err != nil {
		c.fail(err.Error())
		return
	}
	c.bulkString(sha)
}

func cmdSCRIPTEXISTS(c *client, args [][]byte) {
	c.array(len(args) - 2)
	for _, sha := range args[2:] {
		c.boolean(c.m.scripts.cached[strings.ToLower(string(sha))] != nil)
	}
}

func cmdSCRIPTFLUSH(c *client, args [][]byte) {
	if len(args) > 3 || len(args) == 3 && !is(args[2], "ASYNC") && !is(args[2], "SYNC") {
		c.fail("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
		return
	}
	c.m.scripts = newScripting(c.m)
	c.ok()
}
