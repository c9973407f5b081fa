// Package sandbox runs Lua scripts as Redis 7 runs them (EVAL, EVALSHA), in a box: the Lua of gopher-lua with the
// libraries, replies, error texts and frozen tables of Redis, and with limits on everything that a script can spend.
//
//	pool := sandbox.NewPool(16)
//	script, err := sandbox.Compile(source) // err is the text of Redis's error reply
//	reply, err := pool.Run(script, sandbox.Run{Keys: keys, Argv: argv, Caller: caller, Limits: sandbox.DefaultLimits})
//	out = reply.AppendTo(out, 3)
//
// The caller executes what the script hands to redis.call. A script's way, and the files that see it:
//
//	source ── script.go ──> rewrite*.go ──> pool.go ──> machine.go ──> operators.go ──> Caller
//	          shebang,      the syntax      a Lua       one run        library_*.go
//	          SHA1          tree, made      state, or                  redis.call: library_redis.go
//	                        countable       a new one                  reply.go: Lua <-> Reply <-> RESP
//
// # What it promises
//
// A script sees KEYS, ARGV and the libraries redis, string, table, math, bit and cjson, and leaves nothing behind:
// libraries, the metatable of strings and all globals are read-only, KEYS and ARGV are new in every run, math.random starts
// from the seed that the user of the package gives, and a Lua state in which a script failed is thrown away. It cannot reach
// files, the network, the clock, other goroutines or Go.
//
// Replies and their conversions, numbers as text (%.14g, %.17g as a command's argument), tostring and tonumber, error replies
// with the script's SHA1 and line, and the words of the errors that Redis raises are those of Redis 7.0; a differential
// test compares them.
//
// # What is bounded, and what is not
//
// All limits of a run are in Limits. Instructions of Lua are counted one by one; functions that do more for longer arguments (patterns,
// sort, concat, …) are charged for it. Bytes counts what the run allocates, also what was dropped since, so it bounds the memory that
// can be alive (memory.go): strings, tables and what they grow by, whoever made them grow, closures, errors, replies. The clock is looked
// at every 64 instructions, and at every one after 64 have taken long. No more than 5 ms are counted from one look to the next: where a
// container is out of its share of the processor for 100 ms, a script that does little is not stopped for it. Long work is counted before
// it is done, so a run overshoots its time by some milliseconds at worst. Depth of calls is bounded by 200, that of pcall by 100.
//
// Of a script these are bounded: its length by SourceMax, the nesting of its expressions and blocks by 250, its functions by 100, the
// upvalues of each by 60, and the comparisons of constants that the compiler makes (1 400 different constants in one function). So
// compiling is bounded too.
//
// Not bounded: how many runs there are at a time, which is the user's. What all runs can hold is the number of them times Bytes.
//
// A run that meets a limit ends, also inside pcall, and its error is told apart from the script's own errors.
//
// # Caveats
//
//   - Lua is gopher-lua. Errors that Lua itself raises ("attempt to index …") do not name the variable, and syntax errors
//     are worded differently. Its compiler makes something else of many programs: rewrite.go changes these before it sees them, and
//     random programs are compared with Redis (programs_test.go).
//   - coroutine, cmsgpack, struct, load and loadstring are missing; a script that reaches for one is refused by name.
//   - pairs goes through a table in the order in which its keys came; Redis promises no order.
//   - The length of a table with holes is another one of those that Lua allows.
//   - A constructor with a field, or a call that is not in parentheses as its last element, right behind 50, 100, … elements is refused;
//     so is an expression that wants more than 200 registers: of arithmetic, one with some 150 operators.
//   - In Lua 5.1 a constant 0 is -0 where its function has that too; and the sign of what is not a number depends on C's library.
//   - A power that is no square or root may differ in its last digits.
//   - Escapes above \255, and "break" in the middle of a block, are no errors.
//   - error({}), which crashes Redis 7.0, is an error.
package sandbox
