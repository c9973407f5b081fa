package config

// Goal: config.toml, the table of settings and the options of the packages below say the same. Method:
// load the file as an operator would and compare with the defaults; walk the option structs by
// reflection; try the bounds that the comments claim.

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/proxy"
	"redlockd/redlock"
)

func init() { DefaultFile = "" } // the file of this machine is none of the tests' business

const shipped = "../../../config.toml"

func mustLoad(t *testing.T, flags map[string]string, environ ...string) *Config {
	t.Helper()
	c, err := Load(flags, environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loadText loads the text as the file config.toml in a directory of its own.
func loadText(t *testing.T, text string, flags map[string]string, environ ...string) (*Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.toml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"config": "config.toml"}
	for name, value := range flags {
		all[name] = value
	}
	return Load(all, environ)
}

func TestShippedFileEqualsTheDefaults(t *testing.T) {
	c := mustLoad(t, map[string]string{"config": shipped})
	standard := Default()
	for i, s := range c.Settings {
		want := standard.Settings[i]
		if s.source.kind != fromFile {
			t.Errorf("%s: does not stand in config.toml", s.Name)
		}
		if s.Name == "masters" && s.Text() == `"embedded"` && len(c.Engine.Masters) == 0 {
			continue // so that it can be loaded as it is
		}
		if s.Text() != want.Text() {
			t.Errorf("%s: config.toml says %s, the default is %s", s.Name, s.Text(), want.Text())
		}
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: got %q, want none", c.Warnings)
	}
}

// The order is part of the documentation: --print-config and `help settings` follow the table, readers
// follow the file.
func TestShippedFileHasTheOrderOfTheTable(t *testing.T) {
	text, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	lines := keyLines(string(text))
	last := 0
	for _, s := range Default().Settings {
		if lines[s.Name] <= last {
			t.Errorf("%s: stands on line %d, the setting before it in the table on line %d", s.Name, lines[s.Name], last)
		}
		last = lines[s.Name]
	}
}

// Fields that are no settings, and why.
var noSettings = map[string]string{
	"redlock.Options.Masters":     "made from masters and [master]",
	"redlock.Options.Common":      "made from [master]",
	"redlock.Options.Logger":      "made from [log]",
	"redlock.Options.MemoryLimit": "found by serve",
	"proxy.Options.Engine":        "made by serve",
	"proxy.Options.Logger":        "made from [log]",
	"proxy.Options.Embedded":      "made from masters",
	"proxy.Options.Version":       "set by the linker",
	"proxy.Options.Users":         "made from auth.users",
	"proxy.Options.TLSConfig":     "made from server.tls_…",
	"proxy.Options.Settings":      "made by serve",
	"proxy.Options.Reload":        "made by serve",
	"proxy.Options.MemoryLimit":   "found by serve",
	"proxy.Options.Audit":         "made from audit.file",
	"proxy.Options.Certificates":  "made by serve",

	"redlock.Options.ReconnectDelayMax": constant,
	"redlock.Options.Heartbeat":         constant,
	"redlock.Options.FenceMarks":        constant,
	"redlock.Options.RetryDelayMin":     constant,
	"redlock.Options.RetryDelayMax":     constant,
	"redlock.Options.QueueMax":          constant,
}

const constant = "no operator could choose it better than its default"

func TestEveryOptionIsASetting(t *testing.T) {
	c := Default()
	places := make(map[uintptr]bool)
	for _, s := range c.Settings {
		places[reflect.ValueOf(s.place).Pointer()] = true
	}
	for _, options := range []any{&c.Engine, &c.Front} {
		v := reflect.ValueOf(options).Elem()
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue // a hook of the package's own tests
			}
			name := v.Type().String() + "." + v.Type().Field(i).Name
			reason := noSettings[name]
			if isSetting := places[v.Field(i).Addr().Pointer()]; isSetting != (reason == "") {
				t.Errorf("%s: is a setting: %v; exempt: %q. It needs a row in Default and lines in config.toml, or a reason in noSettings", name, isSetting, reason)
			}
		}
	}
}

// The fields of a master, of a user and of a policy are settings of a list's tables, except those that
// are for masters inside the process.
func TestEveryFieldOfAMasterCanBeSet(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := loadText(t, `
		[[masters]]
		addr = "h:1"
		name = "lock-1"
		username = "u"
		password = "p"
		db = 3
		tls = true
		[[auth.users]]
		name = "n"
		password = "q"
		resources = ["r:*"]
		channels = ["c:*"]
		commands = ["read"]
		max_connections = 3
		max_locks = 4
		max_memory = 6
		max_waiters = 5
		max_ttl = "1s"
		[[auth.users]]
		name = "m"
		password = "q"
		admin = false
		[[policy]]
		prefix = "r:*"
		max_ttl = "1s"
		max_wait = "1s"
		max_waiters = 1
		max_hold = "1s"
		lock_delay = "1s"
		fence = "always"`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if admin := c.Front.Users[1].Admin; admin == nil || *admin {
		t.Errorf("admin = false: got %v", admin)
	}
	for _, v := range []reflect.Value{reflect.ValueOf(c.Engine.Masters[0]), reflect.ValueOf(c.Front.Users[0]), reflect.ValueOf(c.Front.Policies[0])} {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() && v.Type().Field(i).IsExported() && name != "Dialer" && name != "SameClock" && name != "NewAddr" && name != "CertCN" && name != "Admin" { // members sets NewAddr, CertCN needs files of TLS, Admin excludes Commands
				t.Errorf("%v.%s is zero: want a way to set it", v.Type(), name)
			}
		}
	}
}

// "Bounds: 1ms … 1h" in a comment is a promise: the ends are accepted, what lies beyond is refused in
// the words of the package that has the bound.
func TestBoundsInTheShippedFileAreTrue(t *testing.T) {
	text, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	bounds := regexp.MustCompile(`Bounds: (\S+) … ([^\s,.]+(?:\.\d+)?)`)
	lines, group, claimed := strings.Split(string(text), "\n"), "", [2]string{}
	tried := make(map[string]bool)
	for _, line := range lines {
		if name, ok := strings.CutPrefix(line, "["); ok {
			group = strings.TrimSuffix(name, "]")
		}
		if strings.TrimSpace(line) == "" {
			claimed = [2]string{}
		}
		if m := bounds.FindStringSubmatch(line); m != nil {
			claimed = [2]string{m[1], m[2]}
		}
		key, _, isSetting := strings.Cut(line, " = ")
		if !isSetting || strings.HasPrefix(line, "#") || claimed[0] == "" {
			continue
		}
		name := join(group, key)
		tried[name] = true
		for i, end := range claimed {
			beyond := below(t, end)
			if i == 1 {
				beyond = above(t, end)
			}
			if err := boundError(name, end); err != nil {
				t.Errorf("%s = %s is within the bounds that config.toml claims, but: %v", name, end, err)
			}
			if beyond != "" && boundError(name, beyond) == nil {
				t.Errorf("%s = %s is outside the bounds that config.toml claims, but is accepted", name, beyond)
			}
		}
	}
	for _, s := range Default().Settings {
		_, isDuration := s.place.(*time.Duration)
		_, isNumber := s.place.(*int)
		if (isDuration || isNumber) && !tried[s.Name] && s.Name != "locks.drift_factor" && s.Name != "master.db" {
			t.Errorf("%s: config.toml names no bounds (as \"Bounds: lo … hi\")", s.Name)
		}
	}
}

// boundError sets one setting and returns what is wrong with its own bounds; relations to other
// settings are left out.
func boundError(name, text string) error {
	c := Default()
	if err := c.Find(name).setText(text); err != nil {
		return err
	}
	for _, err := range Flatten(c.resolve()) {
		if strings.Contains(err.Error(), "outside") {
			return err
		}
	}
	return nil
}

// below and above are the next value beyond a bound, in the unit in which it is written; empty: there
// is none.
func below(t *testing.T, end string) string {
	if d, err := ParseDuration(end); err == nil {
		return (d - 1).String()
	}
	return nextInt(t, end, -1)
}

func above(t *testing.T, end string) string {
	if d, err := ParseDuration(end); err == nil {
		return (d + 1).String()
	}
	return nextInt(t, end, 1)
}

func nextInt(t *testing.T, end string, step int) string {
	n, err := strconv.Atoi(end)
	if err != nil {
		t.Fatalf("bound %q: %v", end, err)
	}
	if n += step; n == 0 {
		return "" // refused everywhere, in other words
	}
	return strconv.Itoa(n)
}

func TestDefaultsAreThoseOfThePackagesBelow(t *testing.T) {
	c := mustLoad(t, nil)
	want := redlock.DefaultOptions()
	want.MinTTL = time.Second
	if got := c.Engine; !reflect.DeepEqual(got, want) {
		t.Errorf("engine: got %+v, want %+v", got, want)
	}
	if got, want := c.Front, proxy.DefaultOptions(); !reflect.DeepEqual(got, want) {
		t.Errorf("front: got %+v, want %+v", got, want)
	}
}

// config.toml tells which settings a running server takes over. Its sentence names these and no others.
func TestShippedFileTellsWhatCanChange(t *testing.T) {
	text, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	_, sentence, _ := strings.Cut(string(text), "Without a restart you can change")
	sentence, _, _ = strings.Cut(strings.ReplaceAll(sentence, "\n#", ""), ".\n")
	told := make(map[string]bool)
	for part := range strings.SplitSeq(sentence, ";") {
		group := regexp.MustCompile(`\[(\w+)\]`).FindStringSubmatch(part)
		for _, key := range regexp.MustCompile(`\b\w+\b`).FindAllString(part, -1) {
			if group != nil && Default().Find(group[1]+"."+key) != nil {
				told[group[1]+"."+key] = true
			}
			if group == nil && Default().Find(key) != nil {
				told[key] = true
			}
		}
	}
	for _, s := range Default().Settings {
		if live := s.change == changeLive; live != told[s.Name] {
			t.Errorf("%s: can change: %v, config.toml says so: %v", s.Name, live, told[s.Name])
		}
	}
}
