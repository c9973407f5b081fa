package sandbox

import (
	"math"
	"math/bits"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

func (m *machine) mathLibrary() *lua.LTable {
	fs := map[string]lua.LGFunction{
		"abs": func(L *lua.LState) int {
			L.Push(lua.LNumber(math.Abs(argNumber(L, 1, "abs"))))
			return 1
		},
		"frexp": func(L *lua.LState) int {
			f, e := math.Frexp(argNumber(L, 1, "frexp"))
			L.Push(lua.LNumber(f))
			L.Push(lua.LNumber(e))
			return 2
		},
		"modf": func(L *lua.LState) int {
			f := argNumber(L, 1, "modf")
			whole, part := math.Trunc(f), 0.0
			if !math.IsInf(f, 0) {
				part = f - whole
			}
			L.Push(lua.LNumber(whole))
			L.Push(lua.LNumber(part))
			return 2
		},
		"max":        extreme("max", func(a, b float64) bool { return a > b }),
		"min":        extreme("min", func(a, b float64) bool { return a < b }),
		"random":     m.mathRandom,
		"randomseed": m.mathRandomseed,
	}
	for name, f := range map[string]func(float64) float64{
		"acos": math.Acos, "asin": math.Asin, "atan": math.Atan, "ceil": math.Ceil, "cos": math.Cos,
		"cosh": math.Cosh, "exp": math.Exp, "floor": math.Floor, "log": math.Log, "log10": math.Log10, "sin": math.Sin,
		"sinh": math.Sinh, "sqrt": math.Sqrt, "tan": math.Tan, "tanh": math.Tanh,
		"deg": func(f float64) float64 { return f / (math.Pi / 180) },
		"rad": func(f float64) float64 { return f * (math.Pi / 180) },
	} {
		fs[name] = func(L *lua.LState) int {
			x := argNumber(L, 1, name)
			L.Push(lua.LNumber(asC(f(x), x, x)))
			return 1
		}
	}
	for name, f := range map[string]func(a, b float64) float64{
		"atan2": math.Atan2, "fmod": math.Mod, "mod": math.Mod, "pow": math.Pow,
		"ldexp": func(f, e float64) float64 { return math.Ldexp(f, int(max(min(e, 1e6), -1e6))) },
	} {
		fs[name] = func(L *lua.LState) int {
			x, y := argNumber(L, 1, name), argNumber(L, 2, name)
			L.Push(lua.LNumber(asC(f(x, y), x, y)))
			return 1
		}
	}
	lib := m.library(fs)
	lib.RawSetString("pi", lua.LNumber(math.Pi))
	lib.RawSetString("huge", lua.LNumber(math.Inf(1)))
	return lib
}

func extreme(name string, better func(a, b float64) bool) lua.LGFunction {
	return func(L *lua.LState) int {
		best := argNumber(L, 1, name)
		for i := 2; i <= L.GetTop(); i++ {
			if f := argNumber(L, i, name); better(f, best) {
				best = f
			}
		}
		L.Push(lua.LNumber(best))
		return 1
	}
}

// Redis has random numbers start from the same seed in every run. They are those of POSIX's lrand48.
const (
	randomSeed       = 0x330E
	randomMultiplier = 0x5DEECE66D
	randomMask       = 1<<48 - 1
)

func (m *machine) mathRandom(L *lua.LState) int {
	m.random = (m.random*randomMultiplier + 0xB) & randomMask
	r := float64(m.random>>17%math.MaxInt32) / math.MaxInt32
	low, high := 1, 0
	switch L.GetTop() {
	case 0:
		L.Push(lua.LNumber(r))
		return 1
	case 1:
		high = argInt(L, 1, "random")
	case 2:
		low, high = argInt(L, 1, "random"), argInt(L, 2, "random")
	default:
		L.RaiseError("wrong number of arguments")
	}
	if low > high {
		badArgument(L, L.GetTop(), "random", "interval is empty")
	}
	L.Push(lua.LNumber(math.Floor(r*(float64(high)-float64(low)+1)) + float64(low)))
	return 1
}

func (m *machine) mathRandomseed(L *lua.LState) int {
	m.random = uint64(uint32(argInt(L, 1, "randomseed")))<<16 | randomSeed
	return 0
}

// bitFunctions is the library bit: operations on 32 bits.
func (m *machine) bitFunctions() map[string]lua.LGFunction {
	fs := map[string]lua.LGFunction{"tohex": bitTohex}
	for name, f := range map[string]func(a, b uint32) uint32{
		"band": func(a, b uint32) uint32 { return a & b },
		"bor":  func(a, b uint32) uint32 { return a | b },
		"bxor": func(a, b uint32) uint32 { return a ^ b },
	} {
		fs[name] = func(L *lua.LState) int {
			a := argBits(L, 1, name)
			for i := 2; i <= L.GetTop(); i++ {
				a = f(a, argBits(L, i, name))
			}
			return pushBits(L, a)
		}
	}
	for name, f := range map[string]func(a uint32, n uint) uint32{
		"lshift":  func(a uint32, n uint) uint32 { return a << n },
		"rshift":  func(a uint32, n uint) uint32 { return a >> n },
		"arshift": func(a uint32, n uint) uint32 { return uint32(int32(a) >> n) },
		"rol":     func(a uint32, n uint) uint32 { return bits.RotateLeft32(a, int(n)) },
		"ror":     func(a uint32, n uint) uint32 { return bits.RotateLeft32(a, -int(n)) },
	} {
		fs[name] = func(L *lua.LState) int {
			return pushBits(L, f(argBits(L, 1, name), uint(argBits(L, 2, name)&31)))
		}
	}
	for name, f := range map[string]func(a uint32) uint32{
		"tobit": func(a uint32) uint32 { return a },
		"bnot":  func(a uint32) uint32 { return ^a },
		"bswap": bits.ReverseBytes32,
	} {
		fs[name] = func(L *lua.LState) int { return pushBits(L, f(argBits(L, 1, name))) }
	}
	return fs
}

// argBits takes a number modulo 2^32, rounded to the nearest integer: the low bits of the sum that has no room for a fraction, as C does
// it. Beyond 2^51 they are others.
func argBits(L *lua.LState, i int, function string) uint32 {
	f := argNumber(L, i, function)
	if f != f { // which has low bits in Go
		return 0
	}
	return uint32(math.Float64bits(f + 3<<51))
}

func pushBits(L *lua.LState, a uint32) int {
	L.Push(lua.LNumber(int32(a)))
	return 1
}

func bitTohex(L *lua.LState) int {
	a, n := argBits(L, 1, "tohex"), 8
	if L.GetTop() > 1 {
		n = int(int32(argBits(L, 2, "tohex")))
	}
	digits := "0000000" + strconv.FormatUint(uint64(a), 16)
	if n < 0 {
		n = max(n, -8)
		n = -n
		b := []byte(digits)
		upperASCII(b)
		digits = string(b)
	}
	L.Push(lua.LString(digits[len(digits)-min(n, 8):]))
	return 1
}
