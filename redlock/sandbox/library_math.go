package sandbox

import (
	"math"
	"math/bits"
	"strconv"
)

func mathLibrary() *table {
	fs := map[string]func(c *call) int{
		"abs": func(c *call) int {
			c.push(math.Abs(argNumber(c, 1, "abs")))
			return 1
		},
		"frexp": func(c *call) int {
			f, e := math.Frexp(argNumber(c, 1, "frexp"))
			c.push(f)
			c.push(float64(e))
			return 2
		},
		"modf": func(c *call) int {
			f := argNumber(c, 1, "modf")
			whole, part := math.Trunc(f), 0.0
			if !math.IsInf(f, 0) {
				part = f - whole
			}
			c.push(whole)
			c.push(part)
			return 2
		},
		"max":        extreme("max", func(a, b float64) bool { return a > b }),
		"min":        extreme("min", func(a, b float64) bool { return a < b }),
		"random":     mathRandom,
		"randomseed": mathRandomseed,
	}
	for name, f := range map[string]func(float64) float64{
		"acos": math.Acos, "asin": math.Asin, "atan": math.Atan, "ceil": math.Ceil, "cos": math.Cos,
		"cosh": math.Cosh, "exp": math.Exp, "floor": math.Floor, "log": math.Log, "log10": math.Log10, "sin": math.Sin,
		"sinh": math.Sinh, "sqrt": math.Sqrt, "tan": math.Tan, "tanh": math.Tanh,
		"deg": func(f float64) float64 { return f / (math.Pi / 180) },
		"rad": func(f float64) float64 { return f * (math.Pi / 180) },
	} {
		fs[name] = func(c *call) int {
			x := argNumber(c, 1, name)
			c.push(asC(f(x), x, x))
			return 1
		}
	}
	for name, f := range map[string]func(a, b float64) float64{
		"atan2": math.Atan2, "fmod": math.Mod, "mod": math.Mod, "pow": math.Pow,
		"ldexp": func(f, e float64) float64 { return math.Ldexp(f, int(max(min(e, 1e6), -1e6))) },
	} {
		fs[name] = func(c *call) int {
			x, y := argNumber(c, 1, name), argNumber(c, 2, name)
			c.push(asC(f(x, y), x, y))
			return 1
		}
	}
	return library(fs, map[string]value{"pi": math.Pi, "huge": math.Inf(1)})
}

func extreme(name string, better func(a, b float64) bool) func(c *call) int {
	return func(c *call) int {
		best := argNumber(c, 1, name)
		for i := 2; i <= c.top(); i++ {
			if f := argNumber(c, i, name); better(f, best) {
				best = f
			}
		}
		c.push(best)
		return 1
	}
}

// Redis has random numbers start from the same seed in every run. They are those of POSIX's lrand48.
const (
	randomSeed       = 0x330E
	randomMultiplier = 0x5DEECE66D
	randomMask       = 1<<48 - 1
)

func mathRandom(c *call) int {
	m := c.m
	m.random = (m.random*randomMultiplier + 0xB) & randomMask
	r := float64(m.random>>17%math.MaxInt32) / math.MaxInt32
	low, high := 1, 0
	switch c.top() {
	case 0:
		c.push(r)
		return 1
	case 1:
		high = argInt(c, 1, "random")
	case 2:
		low, high = argInt(c, 1, "random"), argInt(c, 2, "random")
	default:
		c.raise("wrong number of arguments")
	}
	if low > high {
		badArgument(c, c.top(), "random", "interval is empty")
	}
	c.push(math.Floor(r*(float64(high)-float64(low)+1)) + float64(low))
	return 1
}

func mathRandomseed(c *call) int {
	m := c.m
	m.random = uint64(uint32(argInt(c, 1, "randomseed")))<<16 | randomSeed
	return 0
}

// bitFunctions is the library bit: operations on 32 bits.
func bitFunctions() map[string]func(c *call) int {
	fs := map[string]func(c *call) int{"tohex": bitTohex}
	for name, f := range map[string]func(a, b uint32) uint32{
		"band": func(a, b uint32) uint32 { return a & b },
		"bor":  func(a, b uint32) uint32 { return a | b },
		"bxor": func(a, b uint32) uint32 { return a ^ b },
	} {
		fs[name] = func(c *call) int {
			a := argBits(c, 1, name)
			for i := 2; i <= c.top(); i++ {
				a = f(a, argBits(c, i, name))
			}
			return pushBits(c, a)
		}
	}
	for name, f := range map[string]func(a uint32, n uint) uint32{
		"lshift":  func(a uint32, n uint) uint32 { return a << n },
		"rshift":  func(a uint32, n uint) uint32 { return a >> n },
		"arshift": func(a uint32, n uint) uint32 { return uint32(int32(a) >> n) },
		"rol":     func(a uint32, n uint) uint32 { return bits.RotateLeft32(a, int(n)) },
		"ror":     func(a uint32, n uint) uint32 { return bits.RotateLeft32(a, -int(n)) },
	} {
		fs[name] = func(c *call) int {
			return pushBits(c, f(argBits(c, 1, name), uint(argBits(c, 2, name)&31)))
		}
	}
	for name, f := range map[string]func(a uint32) uint32{
		"tobit": func(a uint32) uint32 { return a },
		"bnot":  func(a uint32) uint32 { return ^a },
		"bswap": bits.ReverseBytes32,
	} {
		fs[name] = func(c *call) int { return pushBits(c, f(argBits(c, 1, name))) }
	}
	return fs
}

// argBits takes a number modulo 2^32, rounded to the nearest integer: the low bits of the sum that has no room for a fraction, as C does
// it. Beyond 2^51 they are others.
func argBits(c *call, i int, function string) uint32 {
	f := argNumber(c, i, function)
	if f != f { // which has low bits in Go
		return 0
	}
	return uint32(math.Float64bits(f + 3<<51))
}

func pushBits(c *call, a uint32) int {
	c.push(float64(int32(a)))
	return 1
}

func bitTohex(c *call) int {
	a, n := argBits(c, 1, "tohex"), 8
	if c.top() > 1 {
		n = int(int32(argBits(c, 2, "tohex")))
	}
	digits := "0000000" + strconv.FormatUint(uint64(a), 16)
	if n < 0 {
		n = max(n, -8)
		n = -n
		b := []byte(digits)
		upperASCII(b)
		digits = string(b)
	}
	c.push(string(digits[len(digits)-min(n, 8):]))
	return 1
}
