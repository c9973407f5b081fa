// Package sandbox runs Lua scripts as Redis 7 runs them (EVAL, EVALSHA), in a box: Lua 5.1 with the
// libraries, replies, error texts and read-only tables of Redis, and with limits on everything that a
// script can spend.
//
//	script, err := sandbox.Compile(source) // err is the text of Redis's error reply
//	reply, err := script.Run(sandbox.Run{Keys: keys, Argv: argv, Caller: caller, Limits: sandbox.DefaultLimits})
//	out = reply.AppendTo(out, 3)
//
// The caller executes what the script hands to redis.call. A script's way, and the files that see it:
//
//	source ── script.go ──> compile.go ───────> machine.go, call.go ────> Caller
//	          shebang,      compile_expr.go     the run, its account,     library_redis.go: redis.call
//	          SHA1,         the syntax tree     its stack, its errors     convert.go: values of Lua <-> resp.Value
//	          the parser    becomes closures    operators.go
//	          of gopher-lua of Go: proto.go     value.go: values, tables; memory.go: what they take
//	                                            builder.go: texts, charged before they are made
//	                                            library_*.go, pattern.go, number.go: what scripts call
//
// # Why it is ours
//
// Of gopher-lua only the parser is used. The other interpreters in Go that we know are of Lua 5.2 and
// later.
//
//   - The interpreter: the compiler of gopher-lua 1.1.2 makes something else of ten kinds of programs,
//     multiple assignment among them, its machine cannot count memory, and a run of a lock script took
//     it three times as long.
//   - Tables: those of gopher-lua fill an array up to any index, and have no read-only state.
//   - string and its patterns: those of gopher-lua can run for ever on ten bytes, and cannot be
//     interrupted.
//   - string.format, tostring and tonumber: the digits are those of C. What scripts write to keys
//     depends on them.
//   - table and math: concat and sort are counted; numbers that are infinite or none, and random ones,
//     are as in Redis.
//   - cjson and redis: gopher-lua has none.
//
// # What it promises
//
// A script sees KEYS, ARGV and the libraries redis, string, table, math and cjson, and leaves nothing
// behind: libraries, the metatable of strings and all globals are read-only, KEYS and ARGV are new in
// every run, and math.random starts from the seed that the user of the package gives. It cannot reach
// files, the network, the clock, other goroutines or Go.
//
// A script means what it means in Redis: statements, order of evaluation, coercions, metatables,
// libraries. Random programs are compared with a real one (programs_test.go).
//
// Replies and their conversions, numbers as text (%.14g, %.17g as a command's argument), tostring and
// tonumber, error replies with the script's SHA1 and line, and the words of the errors that Redis
// raises are those of Redis 7.0; a differential test compares them.
//
// # What is bounded, and what is not
//
// All limits of a run are in Limits. Instructions are the nodes of the statements that are executed;
// functions that read long arguments (patterns, sort, …) are charged for it. Bytes counts what the run
// allocates, also what was dropped since, so it bounds the memory that can be alive (memory.go):
// strings, tables and what they grow by, no matter which function made them grow, closures, errors,
// replies, Go's stack. Each byte is charged before it is allocated: functions in Go make texts with
// builder.go only. A run allocates at most twice its Bytes, and 128 KiB more for the machine.
//
// The clock is looked at every 64 instructions, at every one after 64 have taken long, and every 64 KiB
// that are allocated. No more than 5 ms are counted from one look to the next: where a container is out
// of its share of the processor for 100 ms, a script that does little is not stopped for it. Long work
// is counted before it is done, so a run overshoots its time by some milliseconds at worst. It takes at
// most three times its Time (ceiling_test.go).
// Depth of calls is bounded by 200, that of pcall by 100.
//
// Of a script these are bounded: its length by SourceMax, the nesting of its expressions and blocks by
// 250, the local variables of a function by 200 and its upvalues by 60, as in C Lua. Compiling takes
// time and memory in proportion to the length: up to 1 KiB for a byte, for nothing but parentheses.
//
// Not bounded: how many runs there are at a time, which is the user's. What all runs can hold is the
// number of them times Bytes.
//
// A run that meets a limit ends, also inside pcall, and its error is told apart from the script's own
// errors.
//
// # Caveats
//
//   - Errors that Lua itself raises ("attempt to index …") do not name the variable, and syntax errors
//     are worded differently.
//   - bit, coroutine, cmsgpack, struct, load and loadstring are missing, and the types of RESP3
//     (redis.setresp(3), {double = 1.5}, {map = …}): a script that reaches for one is refused by name.
//     table.foreach, foreachi and setn, which Lua 5.1 calls obsolete, are nil.
//   - pairs goes through a table in the order in which its keys came, elements first; Redis promises no
//     order.
//   - The length of a table with holes is another one of those that Lua allows.
//   - A chain of more than some 240 operators, or of "elseif", is refused as too deep.
//   - A constant 0 is never -0, as it is in Lua 5.1 if its function has that too. The sign of what is
//     not a number depends on C's library.
//   - A power that is no square or root may differ in its last digits.
//   - Escapes above \255, and "break" in the middle of a block, are no errors.
//   - error({}), which crashes Redis 7.0, is an error.
package sandbox
