// Package lua has the scripts that redlockd runs on its masters, a file for each. Its head says what
// the keys, the arguments and the reply are, what the script keeps true, and which function sends it.
// Pieces that several scripts share are files, too: the text of axis.lua goes where a script has the
// line
//
//	--include axis
//
// Masters are sent no comments. They are cut off at the first two dashes of a line, so no string may
// have two in a row.
//
// A number that Go code goes by as well stands in both places. TestNumbersInScripts compares them.
//
// To add a script: write its file, name it below, and give it rows in a test that runs it on a
// redis-server and on a master in memory (onBothMasters), and a mutant for every line that keeps what
// its head promises.
package lua

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

// Script is a script as masters get it.
type Script struct{ Name, Text, SHA string }

// Loaded are the scripts that every new connection loads, for later calls by their SHA1.
var Loaded []Script

// What happens to locks. Masters are sent the SHA1s.
var (
	Release    = loaded("release")
	Acquire    = loaded("acquire")
	Slot       = loaded("slot")
	Join       = loaded("join")
	Extend     = loaded("extend")
	Commit     = loaded("commit")
	Undo       = loaded("undo")
	Read       = loaded("read")
	Inspect    = loaded("inspect")
	Announce   = loaded("announce")
	Withdraw   = loaded("withdraw")
	Raise      = loaded("raise")
	Force      = loaded("force")
	Clamp      = loaded("clamp")
	MemberBeat = loaded("member_beat")
	Watch      = loaded("watch")
	Follow     = loaded("follow")

	CopyRead    = loaded("copy_read")
	CopyGive    = loaded("copy_give")
	CopyReaders = loaded("copy_readers")
	CopyNote    = loaded("copy_note")
)

// What seldom happens to the membership. Masters are sent the texts.
var (
	Mint       = read("mint")
	Prepare    = read("prepare")
	Accept     = read("accept")
	Learn      = read("learn")
	AdmitFloor = read("admit_floor")
)

//go:embed *.lua
var files embed.FS

func loaded(name string) Script {
	s := read(name)
	Loaded = append(Loaded, s)
	return s
}

func read(name string) Script {
	text := include(name)
	sum := sha1.Sum([]byte(text))
	return Script{name, text, hex.EncodeToString(sum[:])}
}

// include returns the text of a file, with what it includes.
func include(name string) string {
	file, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // of the names above
	}
	var text strings.Builder
	for line := range strings.Lines(string(file)) {
		code, comment, _ := strings.Cut(strings.TrimSpace(line), "--")
		if part, found := strings.CutPrefix(comment, "include "); found {
			text.WriteString(include(part))
		} else if code != "" {
			text.WriteString(strings.TrimSpace(code) + "\n")
		}
	}
	return text.String()
}
