package memmaster

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// parameter is a CONFIG parameter. Its value is only reported: it changes nothing else.
type parameter struct {
	initial string
	check   func(value string) (normal string, refusal string) // nil: cannot be set while running
}

var parameters = map[string]parameter{
	"maxmemory": {"0", checkMemory},
	"maxmemory-policy": {"noeviction", checkOneOf("volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
		"allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction")},
	"appendonly":             {"no", checkYesNo},
	"appendfsync":            {"everysec", checkOneOf("everysec", "always", "no")},
	"save":                   {"", checkNothing},
	"notify-keyspace-events": {"", checkNothing},
	"databases":              {strconv.Itoa(databaseCount), nil},
}

func checkNothing(value string) (string, string) { return value, "" }

func checkYesNo(value string) (string, string) {
	value = strings.ToLower(value)
	if value != "yes" && value != "no" {
		return "", "argument must be 'yes' or 'no'"
	}
	return value, ""
}

func checkOneOf(names ...string) func(string) (string, string) {
	return func(value string) (string, string) {
		value = strings.ToLower(value)
		if !slices.Contains(names, value) {
			return "", "argument(s) must be one of the following: " + strings.Join(names, ", ")
		}
		return value, ""
	}
}

// checkMemory reads a number of bytes with an optional unit: k kb m mb g gb.
func checkMemory(value string) (string, string) {
	digits := strings.TrimRight(strings.ToLower(value), "bkmg")
	n, ok := parseInt([]byte(digits))
	factor, known := map[string]int64{
		"": 1, "b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30,
	}[strings.ToLower(value[len(digits):])]
	if !ok || !known || n < 0 || n > math.MaxInt64/factor {
		return "", "argument must be a memory value"
	}
	return strconv.FormatInt(n*factor, 10), ""
}

// newConfig is the configuration of a process that begins.
func newConfig(given map[string]string) (map[string]string, error) {
	config := map[string]string{}
	for name, p := range parameters {
		config[name] = p.initial
	}
	for name, value := range given {
		p, ok := parameters[name]
		if !ok || p.check == nil {
			return nil, fmt.Errorf("CONFIG parameter %q is not known here", name)
		}
		normal, refusal := p.check(value)
		if refusal != "" {
			return nil, fmt.Errorf("CONFIG parameter %s = %q: %s", name, value, refusal)
		}
		config[name] = normal
	}
	return config, nil
}

func cmdCONFIGGET(c *client, args [][]byte) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.m.config)) {
		for _, glob := range args[2:] {
			if globMatch(strings.ToLower(string(glob)), name) {
				names = append(names, name)
				break
			}
		}
	}
	c.mapping(len(names))
	for _, name := range names {
		c.texts(name, c.m.config[name])
	}
}

// cmdCONFIGSET sets all parameters or none.
func cmdCONFIGSET(c *client, args [][]byte) {
	if len(args)%2 != 0 {
		c.failArity("config|set")
		return
	}
	config := maps.Clone(c.m.config)
	for i := 2; i < len(args); i += 2 {
		name := strings.ToLower(string(args[i]))
		p, ok := parameters[name]
		if !ok {
			c.fail(fmt.Sprintf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", args[i]))
			return
		}
		normal, refusal := "", "can't set immutable config"
		if p.check != nil {
			normal, refusal = p.check(string(args[i+1]))
		}
		if refusal != "" {
			c.fail(fmt.Sprintf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", args[i], refusal))
			return
		}
		config[name] = normal
	}
	c.m.config = config
	c.ok()
}

func cmdCONFIGRESETSTAT(c *client, args [][]byte) {
	c.m.executed = 0
	c.ok()
}
