package sandbox

import (
	"math"
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
