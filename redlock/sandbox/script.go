package sandbox

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/parse"
)

// chunkName is how Redis calls a script in its errors.
const chunkName = "user_script"

// SourceMax is the length of the longest script in bytes. Scripts of lock libraries have some 100 to
// 3000.
const SourceMax = 16 << 10

// Script is a compiled script. It can be run by many goroutines at a time.
type Script struct {
	// SHA is the SHA1 of the source, in hex, lower case: its name for EVALSHA.
	SHA string
	// NoWrites is set by "#!lua flags=no-writes": the Caller must refuse commands that write.
	NoWrites bool
	// Bytes is about what the script takes in memory, beside its source.
	Bytes int

	main *function
}

// SHA is the SHA1 of a source in hex, which names it for EVALSHA.
func SHA(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// Compile makes a script of its source. The text of its error is Redis's error reply.
func Compile(source string) (*Script, error) { return compile(source, SourceMax) }

func compile(source string, most int) (s *Script, err error) {
	if len(source) > most {
		return nil, fmt.Errorf("ERR Error compiling script (new function): the script has %d bytes, more than the limit of %d", len(source), most)
	}
	s = &Script{SHA: SHA(source)}
	body, err := s.shebang(source)
	if err != nil {
		return nil, err
	}
	// A compiler that trips over odd source must not take the process with it.
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, compileError(fmt.Errorf("%s:0: cannot compile: %v", chunkName, r))
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(body), chunkName)
	if err != nil {
		return nil, compileError(err)
	}
	main, nodes, err := compileChunk(chunk)
	if err != nil {
		return nil, compileError(err)
	}
	s.main, s.Bytes = main, scriptBytes+nodes*nodeBytes
	return s, nil
}

// What a compiled script takes, and each node of its syntax tree.
const (
	scriptBytes = 1000
	nodeBytes   = 200
)

// compileError puts the parser's words in the form of Lua's: "user_script:1: syntax error near 'x'".
func compileError(err error) error {
	text := err.Error()
	var syntax *parse.Error
	if errors.As(err, &syntax) {
		token := syntax.Token
		if token == "" || syntax.Pos.Line == parse.EOF {
			token = "<eof>"
		}
		text = fmt.Sprintf("%s:%d: %s near '%.80s'", chunkName, max(syntax.Pos.Line, 1), syntax.Message, token)
	}
	return errors.New("ERR Error compiling script (new function): " + oneLine(text))
}

// shebang reads "#!lua name=… flags=…" in front of a script and returns the rest, from the end of that
// line, so that lines keep their numbers.
func (s *Script) shebang(source string) (body string, err error) {
	if !strings.HasPrefix(source, "#!") {
		return source, nil
	}
	end := strings.IndexByte(source, '\n')
	if end < 0 {
		return "", errors.New("ERR Invalid script shebang")
	}
	words := strings.Fields(source[:end])
	if words[0] != "#!lua" {
		return "", fmt.Errorf("ERR Unexpected engine in script shebang: %.80s", words[0])
	}
	for _, word := range words[1:] {
		flags, ok := strings.CutPrefix(word, "flags=")
		if !ok {
			return "", fmt.Errorf("ERR Unknown lua shebang option: %.80s", word)
		}
		for flag := range strings.SplitSeq(flags, ",") {
			switch flag {
			case "no-writes":
				s.NoWrites = true
			case "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys", "":
			default:
				return "", fmt.Errorf("ERR Unexpected flag in script shebang: %.80s", flag)
			}
		}
	}
	return source[end:], nil
}
