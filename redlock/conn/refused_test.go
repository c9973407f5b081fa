package conn

// Goal: what a master says when it refuses a command becomes a sentence with the cure, and nothing else does. The texts are those of Redis 5
// to 8 and Valkey.

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCommandRefused(t *testing.T) {
	for _, tt := range []struct{ says, reason, fix string }{
		{"OOM command not allowed when used memory > 'maxmemory'.", "memory is full (OOM)", "maxmemory"},
		{"OOM command not allowed when used memory > 'maxmemory'. script: 97e0, on @user_script:1.", "memory is full (OOM)", "maxmemory"},
		{"ERR Error running script (call to f_31b4bd4920ea84cedf86423669ae1164504e06c9): @user_script:28: @user_script: 28: -OOM command not allowed when used memory > 'maxmemory'. ", "memory is full (OOM)", "maxmemory"},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", "cannot write to its disk", `save ""`},
		{"MISCONF Errors writing to the AOF file: No space left on device", "cannot write to its disk", "appendonly no"},
		{"NOREPLICAS Not enough good replicas to write.", "too few replicas", "min-replicas-to-write 0"},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "runs there for too long (BUSY)", "SCRIPT KILL"},
		{"NOPERM this user has no permissions to run the 'set' command", "redlockd's user SET (NOPERM", "+<command>"},
		{"NOPERM User app has no permissions to run the 'script|load' command", "redlockd's user SCRIPT LOAD (", "+<command>"},
		{"NOPERM this user has no permissions to run this command or its subcommand", "a command that locks need (", "+<command>"},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", "user all keys (", "allkeys"},
		{"ERR The user executing the script can't run this command or subcommand script: fce0, on @user_script:1.", "a command of its scripts", "redlockd check"},
		{"ERR ACL failure in script: User app has no permissions to run the 'pexpire' command script: fce0, on @user_script:1.", "a command of its scripts", "redlockd check"},
		{says: "OOMPH"},
		{says: "ERR unknown command 'set'"},
		{says: "LOADING Redis is loading the dataset in memory"},
		{says: "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{says: "read tcp: connection reset by peer"},
	} {
		reason, fix := CommandRefused(errors.New(tt.says))
		if (reason == "") != (tt.reason == "") || !strings.Contains(reason, tt.reason) || !strings.Contains(fix, tt.fix) {
			t.Errorf("%s: got %q, %q, want %q, %q", tt.says, reason, fix, tt.reason, tt.fix)
		}
		cause := errors.New(tt.says)
		if err := AsRefusal(cause); IsRefused(err) != (tt.reason != "") || tt.reason == "" && err != cause {
			t.Errorf("%s: as a refusal: got %v", tt.says, err)
		}
	}
	if reason, _ := CommandRefused(nil); reason != "" || AsRefusal(nil) != nil {
		t.Errorf("no error: got %q", reason)
	}
	if err := AsRefusal(fmt.Errorf("heartbeat: %w", errors.New("BUSY Redis"))); IsRefused(err) {
		t.Errorf("only the master's own sentence counts: got %v", err)
	}
	if err := AsRefusal(fmt.Errorf("heartbeat: %w", ErrorIn(Reply{Kind: '-', Text: []byte("BUSY Redis")}))); !IsRefused(err) {
		t.Errorf("the master's own sentence, with where redlockd was: got %v", err)
	}
}
