package conn

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/lua"
)

// A master can lose the scripts at any time: anybody may send SCRIPT FLUSH. NOSCRIPT means that the
// script was not executed, so it is no failure of the master: load the scripts, and call again. All
// calls by SHA1 go through this file, except those of batches (batch.repeatLost).

// Load loads the scripts.
func (l *Conn) Load(ctx context.Context) error {
	pipe := l.Redis.Pipeline()
	var loads []*redis.StringCmd
	for _, s := range lua.Loaded {
		loads = append(loads, pipe.ScriptLoad(ctx, s.Text))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i, load := range loads {
		if load.Val() != lua.Loaded[i].SHA {
			return ProtocolErrorf("%q for the SHA1 of a script that is %s", Sanitize(load.Val()), lua.Loaded[i].SHA)
		}
	}
	return nil
}

// LoadWithin is Load with a deadline.
func (l *Conn) LoadWithin(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.Load(ctx)
}

// Pipelined sends the commands that queue adds. If the master has lost a script, it loads the scripts
// and sends everything again: queue is called once more, and its commands may be executed twice. The
// error is that of loading. The commands have their own.
func (l *Conn) Pipelined(ctx context.Context, queue func(pipe redis.Pipeliner)) error {
	for repeated := false; ; repeated = true {
		pipe := l.Redis.Pipeline()
		queue(pipe)
		commands, _ := pipe.Exec(ctx)
		lost := false
		for _, cmd := range commands {
			lost = lost || IsNoScript(cmd.Err())
		}
		if !lost || repeated { //mutant:a-lost-script-is-a-failure
			return nil
		}
		if err := l.Load(ctx); err != nil {
			return fmt.Errorf("load scripts again: %w", err)
		}
	}
}

// QueueScript adds the call of a script to a pipeline of Pipelined.
func QueueScript(ctx context.Context, pipe redis.Pipeliner, s lua.Script, keys []string, args ...any) *redis.Cmd {
	return pipe.EvalSha(ctx, s.SHA, keys, args...)
}

// Call calls one script, and does the same.
func (l *Conn) Call(ctx context.Context, s lua.Script, keys []string, args ...any) *redis.Cmd {
	call := l.Redis.EvalSha(ctx, s.SHA, keys, args...)
	if !IsNoScript(call.Err()) { //mutant:a-lost-script-of-one-call-is-a-failure
		return call
	}
	if err := l.Load(ctx); err != nil {
		call.SetErr(fmt.Errorf("load scripts again: %w", err))
		return call
	}
	return l.Redis.EvalSha(ctx, s.SHA, keys, args...)
}
