package sandbox

import "math"

func mathLibrary() *table {
	fs := map[string]func(c *call) int{
		"abs": func(c *call) int { return c.result(math.Abs(c.argNumber(1))) },
		"frexp": func(c *call) int {
			f, e := math.Frexp(c.argNumber(1))
			return c.results(f, float64(e))
		},
		"modf": func(c *call) int {
			f := c.argNumber(1)
			whole, part := math.Trunc(f), 0.0
			if !math.IsInf(f, 0) {
				part = f - whole
			}
			return c.results(whole, part)
		},
		"max":        extreme(func(a, b float64) bool { return a > b }),
		"min":        extreme(func(a, b float64) bool { return a < b }),
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
			x := c.argNumber(1)
			return c.result(asC(f(x), x, x))
		}
	}
	for name, f := range map[string]func(a, b float64) float64{
		"atan2": math.Atan2, "fmod": math.Mod, "mod": math.Mod, "pow": math.Pow,
		"ldexp": func(f, e float64) float64 { return math.Ldexp(f, int(max(min(e, 1e6), -1e6))) },
	} {
		fs[name] = func(c *call) int {
			x, y := c.argNumber(1), c.argNumber(2)
			return c.result(asC(f(x, y), x, y))
		}
	}
	return library(fs, map[string]value{"pi": math.Pi, "huge": math.Inf(1)})
}

func extreme(better func(a, b float64) bool) func(c *call) int {
	return func(c *call) int {
		best := c.argNumber(1)
		for i := 2; i <= c.top(); i++ {
			if f := c.argNumber(i); better(f, best) {
				best = f
			}
		}
		return c.result(best)
	}
}

// Redis has random numbers start from the same seed in every run. They are those of POSIX's lrand48.
const (
	randomSeed       = 0x330E
	randomMultiplier = 0x5DEECE66D
	randomMask       = 1<<48 - 1
)

func mathRandom(c *call) int {
	c.m.random = (c.m.random*randomMultiplier + 0xB) & randomMask
	r := float64(c.m.random>>17%math.MaxInt32) / math.MaxInt32
	low, high := 1, 0
	switch c.top() {
	case 0:
		return c.result(r)
	case 1:
		high = c.argInt(1)
	case 2:
		low, high = c.argInt(1), c.argInt(2)
	default:
		c.raise("wrong number of arguments")
	}
	if low > high {
		c.badArgument(c.top(), "interval is empty")
	}
	return c.result(math.Floor(r*(float64(high)-float64(low)+1)) + float64(low))
}

func mathRandomseed(c *call) int {
	c.m.random = uint64(uint32(c.argInt(1)))<<16 | randomSeed
	return 0
}
