package memmaster

import (
	"crypto/sha1"
	"strings"
	"sync"
	"time"

	"redlockd/redlock/resp"
	"redlockd/redlock/sandbox"
)

// scriptsMax bounds the script cache. At the bound the oldest script is forgotten, and its user gets
// NOSCRIPT.
const scriptsMax = 4096

// scriptLimits end a script that does not end itself: some 50 ms of instructions. Redis has no such
// limits. Time is not limited, as what it measures depends on what else the computer does.
var scriptLimits = sandbox.Limits{Instructions: 2_000_000, Bytes: 256 << 20, Calls: 1_000_000, Time: time.Hour}

// scripting is what a master keeps for scripts.
type scripting struct {
	m      *Master
	cached map[string]*sandbox.Script // by SHA1, lower case
	order  []string                   // the keys of cached, oldest first

	client *client // executes the script's commands

	// The running script.
	caller   *client
	readOnly bool // by its shebang line
	wrote    bool // it has changed data
	// bytes holds the arguments of one command, and args points into it: both are used again for the next
	// command.
	bytes []byte
	args  [][]byte
}

func newScripting(m *Master) *scripting {
	return &scripting{m: m, cached: map[string]*sandbox.Script{}, client: &client{m: m}}
}

const errNoScript = "NOSCRIPT No matching script. Please use EVAL."

// cmdEVAL keeps the script for EVALSHA, as Redis does.
func cmdEVAL(c *client, args [][]byte) {
	keys, argv, ok := c.scriptArguments(args)
	if !ok {
		return
	}
	_, script, err := c.m.scripts.load(string(args[1]))
	if err != nil {
		c.fail(err.Error())
		return
	}
	c.m.scripts.run(c, script, keys, argv)
}

// cmdEVALSHA runs a script that EVAL or SCRIPT LOAD has brought since the process began, or refuses it
// before it has done anything.
func cmdEVALSHA(c *client, args [][]byte) {
	if len(args[1]) != 2*sha1.Size {
		c.fail(errNoScript)
		return
	}
	keys, argv, ok := c.scriptArguments(args)
	if !ok {
		return
	}
	script := c.m.scripts.cached[strings.ToLower(string(args[1]))]
	if script == nil {
		c.fail(errNoScript)
		return
	}
	c.m.scripts.run(c, script, keys, argv)
}

// scriptArguments splits what follows the script into keys and other arguments.
func (c *client) scriptArguments(args [][]byte) (keys, argv [][]byte, ok bool) {
	n, ok := resp.ParseInt(args[2])
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
func (s *scripting) load(text string) (sha string, script *sandbox.Script, err error) {
	sha = sandbox.SHA(text)
	if script = s.cached[sha]; script != nil {
		return sha, script, nil
	}
	if script, err = compile(sha, text); err != nil {
		return "", nil, err
	}
	if len(s.order) == scriptsMax {
		delete(s.cached, s.order[0])
		s.order = s.order[1:]
	}
	s.cached[sha] = script
	s.order = append(s.order, sha)
	return sha, script, nil
}

// compiled are scripts that masters of this process have compiled, by SHA1: those of a fleet get the same ones, and get them again when they restart.
var compiled struct {
	sync.Mutex
	scripts map[string]*sandbox.Script
}

// compiledMax bounds them. At the bound all are forgotten.
const compiledMax = 256

func compile(sha, text string) (*sandbox.Script, error) {
	compiled.Lock()
	script := compiled.scripts[sha]
	compiled.Unlock()
	if script != nil {
		return script, nil
	}
	script, err := sandbox.Compile(text)
	if err != nil {
		return nil, err
	}
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.scripts == nil || len(compiled.scripts) == compiledMax {
		compiled.scripts = map[string]*sandbox.Script{}
	}
	compiled.scripts[sha] = script
	return script, nil
}

// cmdSCRIPTLOAD compiles the script now, so that an error in it is found before it is needed.
func cmdSCRIPTLOAD(c *client, args [][]byte) {
	sha, _, err := c.m.scripts.load(string(args[2]))
	if err != nil {
		c.fail(err.Error())
		return
	}
	c.texts(sha)
}

// cmdSCRIPTFLUSH forgets all scripts: what a test does to see a client load its own again.
func cmdSCRIPTFLUSH(c *client, args [][]byte) {
	if len(args) > 3 || len(args) == 3 && !is(args[2], "ASYNC") && !is(args[2], "SYNC") {
		c.fail("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
		return
	}
	c.m.scripts = newScripting(c.m)
	c.ok()
}

// run executes a script and answers the caller. What ended a script before its end is in the reply.
func (s *scripting) run(caller *client, script *sandbox.Script, keys, argv [][]byte) {
	s.caller, s.readOnly, s.wrote = caller, script.NoWrites, false
	reply, _ := script.Run(sandbox.Run{Keys: texts(keys), Argv: texts(argv), Caller: s, Limits: scriptLimits})
	s.caller = nil
	caller.out = reply.AppendTo(caller.out, 2)
}

func texts(list [][]byte) []string {
	texts := make([]string, len(list))
	for i, b := range list {
		texts[i] = string(b)
	}
	return texts
}

// Call executes a command for the running script: the sandbox calls it.
func (s *scripting) Call(texts []string) (resp.Value, error) {
	args := s.arguments(texts)
	cmd, found := s.m.lookup(args)
	switch {
	case !found:
		return scriptError("ERR Unknown Redis command called from script"), nil
	case !cmd.arityFits(len(args)) || cmd.run == nil:
		return scriptError("ERR Wrong number of args calling Redis command from script"), nil
	case cmd.flags&flagNoScript != 0:
		return scriptError("ERR This Redis command is not allowed from script"), nil
	case cmd.flags&flagWrite != 0 && s.readOnly:
		return scriptError("ERR Write commands are not allowed from read-only scripts."), nil
	case cmd.flags&flagWrite != 0 && s.m.replicaOf != nil:
		return scriptError(errReadOnly), nil
	case cmd.flags&flagGrows != 0 && s.m.full && !s.wrote:
		return scriptError(errFull), nil
	}
	s.wrote = s.wrote || cmd.flags&flagWrite != 0
	c := s.client
	c.out = c.out[:0]
	s.m.call(c, s.caller, cmd, args)
	reply, _ := resp.CutValue(c.out)
	if cap(c.out) > keptBytesMax {
		c.out = nil
	}
	return reply, nil
}

// scriptError is an error that redis.call raises and redis.pcall returns.
func scriptError(message string) resp.Value {
	return resp.Value{Kind: resp.Error, Text: message}
}

// arguments copies them: handlers get bytes.
func (s *scripting) arguments(texts []string) [][]byte {
	s.bytes, s.args = s.bytes[:0], s.args[:0]
	for _, text := range texts {
		begin := len(s.bytes)
		s.bytes = append(s.bytes, text...)
		// If a later argument makes s.bytes move, this one stays in the old array.
		s.args = append(s.args, s.bytes[begin:len(s.bytes):len(s.bytes)])
	}
	return s.args
}
