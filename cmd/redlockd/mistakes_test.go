package main

// Goal: a mistake on the command line is told with what to do, and never a password. Method: run the
// command line as main does.

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/cmd/redlockd/run"
	"redlockd/redlock/redisproc"
)

// secret is the password of these tests: nothing that redlockd prints may show it.
const secret = "hunter2"

// mustLoad loads a configuration that is right.
func mustLoad(t *testing.T, flags map[string]string, environ ...string) *config.Config {
	t.Helper()
	c, err := config.Load(flags, environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func writeFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// configFile makes a file of settings, and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := t.TempDir() + "/config.toml"
	writeFile(t, path, text, 0o600)
	return path
}

// writeGoodCertificate makes cert.pem and key.pem, which do not end soon.
func writeGoodCertificate(t *testing.T, dir string, serial int64) {
	t.Helper()
	cert, key := redisproc.MakeCertificate(t, serial, time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour))
	writeFile(t, dir+"/cert.pem", cert, 0o600)
	writeFile(t, dir+"/key.pem", key, 0o600)
}

// runCommand runs a command line as main does, with this environment. The machine may be busy: a client waits as long as it can for the
// server, unless args say how long.
func runCommand(environ []string, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	clients := []string{"ping", "locks", "info", "unlock", "reload"}
	if len(args) > 0 && slices.Contains(clients, args[0]) && !slices.Contains(args, "--timeout") {
		args = slices.Insert(slices.Clone(args), 1, "--timeout", "1m")
	}
	code = cli.Run(cli.Process{Environ: environ, Stdout: &out, Stderr: &errs}, commands, args)
	return code, out.String(), errs.String()
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args    string
		environ []string
		want    string
	}{
		{"--lisen :1", nil, "unknown flag --lisen (did you mean --listen?); redlockd serve --help lists the flags"},
		{"serve --qwertz", nil, "unknown flag --qwertz; redlockd serve --help lists the flags"},
		{"check --maxttl 5s", nil, "unknown flag --maxttl (did you mean --max-ttl?); redlockd check --help lists the flags"},
		{"check --library redison", nil, `no library "redison" is known (did you mean redisson?); known are ` + strings.Join(knownLibraries(), ", ")},
		{"check --library=", nil, `no library "" is known; known are ` + strings.Join(knownLibraries(), ", ")},
		{"check --library", nil, "--library needs a value; redlockd check --help lists the flags"},
		{"--listen", nil, "--listen needs a value; redlockd serve --help lists the flags"},
		{"check --json=perhaps", nil, `invalid boolean value "perhaps" for -json: neither true nor false; redlockd check --help lists the flags`},
		{"serv", nil, `unknown command "serv" (did you mean serve?); the commands are serve, check, bootstrap, members, run, ping, locks, info, top, unlock, reload, completion, man, version, help`},
		{"qwertz", nil, `unknown command "qwertz"; the commands are serve, check, bootstrap, members, run, ping, locks, info, top, unlock, reload, completion, man, version, help`},
		{"serve now", nil, `unexpected argument "now"; redlockd serve --help lists the flags`},
		{"--masters a:1 check", nil, "the command comes first: redlockd check [flags]"},
		{"version --long", nil, `version takes no arguments, got "--long"`},
		{"help servee", nil, `no help on "servee" (did you mean serve?); the topics are settings, serve, check, bootstrap, members, run, ping, locks, info, top, unlock, reload, completion, man, version, help`},
		{"help serve check", nil, "help takes one topic"},
		{"--config nowhere.toml", nil, "the configuration file nowhere.toml cannot be read: no such file or directory: correct its path"},
		{"--config .", nil, "the configuration file . cannot be read: is a directory: correct its path"},
		{"--config=", nil, "--config: the path of a file is needed"},
		{"", []string{"REDLOCKD_CONFIG=nowhere.toml"}, "the configuration file nowhere.toml cannot be read: no such file or directory: correct its path"},
		{"--max-ttl 60", nil, `--max-ttl: "60" is no duration: a number with a unit is needed, such as 50ms, 30s or 1h30m`},
		{"--max-ttl 48h", nil, "--max-ttl: 48h is outside 10ms … 24h\nlocks.max_hold: 24h is below locks.max_ttl = 48h (locks.max_ttl: --max-ttl)"},
		{"--max-clients lots", nil, `--max-clients: "lots" is no whole number`},
		{"--log-level inof", nil, `--log-level: "inof" is none of debug, info, warn, error (did you mean info?)`},
		{"--versoin", nil, "unknown flag --versoin (did you mean --version?); redlockd serve --help lists the flags"},
		{"check --hlep", nil, "unknown flag --hlep (did you mean --help?); redlockd check --help lists the flags"},
		{"--masters redis://u@a:1", nil, `--masters: user "u" has no password`},
		{"--masters a:1,,b:1", nil, `--masters: an address is missing in "a:1,,b:1"`},
		{"--masters a:1,b:1,a:1", nil, "--masters: a:1 is named twice, as number 1 and 3: each vote must come from a master of its own"},
		{"--masters a,b:1,c:x", nil, "--masters: \"a\" is no address: host:port is needed, or the path of a unix socket (did you mean \"a:6379\"?)\n--masters: \"x\" is no port: a number up to 65535 is needed"},
		{"--listen localhost", nil, `--listen: "localhost" is no address: host:port is needed, or :port for all addresses of this machine, or unix:/path of a socket (did you mean "localhost:6380"?)`},
		{"--masters a:1, b:1", nil, `unexpected argument "b:1": no space may stand behind a comma in the list of --masters; redlockd serve --help lists the flags`},
		{"--masters [\"a:1\",\"b:1\"]", nil, `--masters: "[\"a:1\",\"b:1\"]" is no list of addresses: write a:1,b:1`},
		{"lock r 30s", nil, `unknown command "lock" (LOCK is for clients of Redis: redis-cli -p 6380 LOCK name 30s; redlockd run holds a lock while a program runs); the commands are serve, check, bootstrap, members, run, ping, locks, info, top, unlock, reload, completion, man, version, help`},
		{"help lock", nil, `no help on "lock" (LOCK is for clients of Redis: redis-cli -p 6380 LOCK name 30s; redlockd run holds a lock while a program runs); the topics are settings, serve, check, bootstrap, members, run, ping, locks, info, top, unlock, reload, completion, man, version, help`},
		{"", []string{"REDLOCKD_LOCKS_DRIFT_FACTOR=lots"}, `REDLOCKD_LOCKS_DRIFT_FACTOR: "lots" is no number`},
		{"", []string{"REDLOCKD_MASTER_TLS=perhaps"}, `REDLOCKD_MASTER_TLS: "perhaps" is neither true nor false`},
		{"", []string{"REDLOCKD_MASTERS=a:1,b:1"}, "REDLOCKD_MASTERS: 2 masters tolerate no more failures than 1: name an odd number (5 is usual)"},
		{"", []string{"REDLOCKD_AUTH_USERS=" + secret}, "REDLOCKD_AUTH_USERS: name:password is needed for each user, with commas between them"},
		{"", []string{"REDLOCKD_AUTH_USERS=a:" + secret + ",a:" + secret}, `REDLOCKD_AUTH_USERS: user "a" is named twice`},
		{"", []string{"REDLOCKD_MASTER_QUEUE_MAX=5", "REDLOCKD_MASTER_HEARTBEAT=1s"}, "REDLOCKD_MASTER_HEARTBEAT: master.heartbeat is no setting any more: redlockd checks each master every 250ms; delete it\n" +
			"REDLOCKD_MASTER_QUEUE_MAX: master.queue_max is no setting any more: 16384 acquisitions can wait for one master; delete it"},
		{"--max-ttl 5 --log-level x", []string{"REDLOCKD_MASTER_TIMEOUT=9"}, "REDLOCKD_MASTER_TIMEOUT: \"9\" is no duration: a number with a unit is needed, such as 50ms, 30s or 1h30m\n" +
			"--log-level: \"x\" is none of debug, info, warn, error\n--max-ttl: \"5\" is no duration: a number with a unit is needed, such as 50ms, 30s or 1h30m"},
		{"run", nil, "no resource is named: " + run.Command.Form + "; redlockd run --help lists the flags"},
		{"run --wait 1s -- true", nil, "no resource is named: " + run.Command.Form + "; redlockd run --help lists the flags"},
		{"run r", nil, `-- and a command are missing behind the resource "r": ` + run.Command.Form + "; redlockd run --help lists the flags"},
		{"run r true", nil, `-- is missing between the resource "r" and the command "true": ` + run.Command.Form + "; redlockd run --help lists the flags"},
		{"run r --wait 1s -- true", nil, `unexpected "--wait" behind the resource "r": ` + run.Command.Form + "; redlockd run --help lists the flags"},
		{"run r --", nil, "no command stands behind --: " + run.Command.Form + "; redlockd run --help lists the flags"},
		{"run --fense r -- true", nil, "unknown flag --fense (did you mean --fence?); redlockd run --help lists the flags"},
		{"run --masters a:1 --server b:1 r -- true", nil, "--server and --masters: name the servers, or the masters that are to be asked without one"},
		{"run --server b r -- true", nil, `--server: "b" is no address: host:port is needed, or the path of a unix socket (did you mean "b:6380"?)`},
		{"run --server b:1,c:70000 r -- true", nil, `--server: "70000" is no port: a number up to 65535 is needed`},
		{"run --masters a:1 --ttl 5 --wait 1x r -- true", nil, `--ttl: "5" is no duration: a number with a unit is needed, such as 50ms, 30s or 1h30m` + "\n" +
			`--wait: "1x" is no duration: a number with a unit is needed, such as 50ms, 30s or 1h30m`},
		{"run --masters a:1 -w 1 -n r -- true", nil, "--wait and --nonblock: one waits, the other does not"},
		{"run --masters a:1 -E 256 r -- true", nil, `--conflict-exit-code: "256" is no number from 0 to 255`},
		{"run --masters a:1 --leader --at-least 5s r -- true", nil, "--at-least goes not with --leader, which keeps the lock for as long as the command runs"},
		{"run --masters a:1 --leader --wait 0s r -- true", nil, "--wait: 0s is outside 1s … 1h: the most is locks.max_wait; to wait for longer, set REDLOCKD_LOCKS_MAX_WAIT, up to 24h"},
		{"run --masters a:1 --leader -n r -- true", nil, "--nonblock goes not with --leader, which waits until it leads"},
		{"run --masters a:1 --at-least 6m r -- true", nil, "--at-least: 6m is outside 0s … 5m: the most is locks.max_ttl: the lock lives as long if redlockd is killed before"},
		{"run --server a:1 --at-least 25h r -- true", nil, "--at-least: 25h is outside 0s … 24h: the most is locks.max_ttl: the lock lives as long if redlockd is killed before"},
		{"run --masters a:1 --ttl 10m r -- true", nil, "--ttl: 10m is outside 1s … 5m: at least 100ms, locks.min_ttl and four times master.timeout, at most locks.max_ttl; the lock is renewed for as long as the command runs"},
		{"run --masters a:1 --slots 33 r -- true", nil, "--slots: \"33\" is no number from 1 to 32"},
		{"run --masters a:1 --shared --fence r -- true", nil, "--shared goes neither with --fence nor with --slots: who shares writes nothing that a fence would keep in order, and a slot has one holder"},
		{"run --masters a:1 --wait 2h r -- true", nil, "--wait: 2h is outside 0s … 1h: the most is locks.max_wait; to wait for longer, set REDLOCKD_LOCKS_MAX_WAIT, up to 24h"},
		{"run --masters a:1 --wait -1s r -- true", nil, "--wait: -1s is outside 0s … 1h: the most is locks.max_wait; to wait for longer, set REDLOCKD_LOCKS_MAX_WAIT, up to 24h"},
		{"run --masters a:1 --ttl 6s --grace 3s r -- true", nil, "--grace: 3s is outside 0s … 2s: the most is a third of --ttl, for the rest is needed to renew the lock; ask for a longer --ttl"},
		{"bootstrap", nil, "bootstrap needs masters outside of a server's process, and none are named: name them with --masters, or in the file of --config"},
		{"check", nil, "check needs masters outside of a server's process, and none are named: name them with --masters, or in the file of --config"},
	} {
		t.Run(c.args+strings.Join(c.environ, " "), func(t *testing.T) {
			code, stdout, stderr := runCommand(c.environ, strings.Fields(c.args)...)
			got := strings.TrimSuffix(strings.ReplaceAll("\n"+stderr, "\nredlockd: ", "\n")[1:], "\n")
			if got != c.want || code != cli.ExitUsage || stdout != "" {
				t.Errorf("exit code %d, output %q, errors:\n%s\nwant code %d, no output, and:\n%s", code, stdout, got, cli.ExitUsage, c.want)
			}
			if strings.Contains(stderr, secret) {
				t.Errorf("%s gives the password away", stderr)
			}
		})
	}
}

// Every command reads the default file, and tells a warning, also one that only prints the configuration.
func TestWarningsAreTold(t *testing.T) {
	open := t.TempDir() + "/open.toml"
	writeFile(t, open, "masters = [\"a:1\"]\n[master]\npassword = \"p\"\n", 0o644)
	config.DefaultFile = open
	t.Cleanup(func() { config.DefaultFile = "" })
	for _, args := range [][]string{{"--print-config"}, {"check", "--print-config"}, {"run", "--print-config"}, {"ping", "--print-config"}} {
		code, _, stderr := runCommand(nil, args...)
		if want := "redlockd: warning: " + open + " holds a password, and everybody on this machine can read or change it"; code != cli.ExitOK || !strings.HasPrefix(stderr, want) {
			t.Errorf("%v: exit code %d, errors %q; want %d, %q", args, code, stderr, cli.ExitOK, want)
		}
	}
}

// What an upgrade of the package asks: it finds what a start would find, and makes nothing.
func TestServeChecksItsConfiguration(t *testing.T) {
	dir := t.TempDir()
	audit := "masters = [\"127.0.0.1:1\"]\n[audit]\nfile = \"" + dir + "/audit\"\n"
	for name, c := range map[string]struct {
		text, fault string
	}{
		"right":     {audit, ""},
		"a fault":   {"masters = [\"127.0.0.1:1\"]\nbogus = 1\n", "config.toml:2: unknown setting bogus"},
		"no master": {"[server]\n", "masters: none are named"},
		"protected": {"masters = [\"127.0.0.1:1\"]\n[server]\nlisten = \":6380\"\n", "protected mode"},
		"no audit":  {strings.ReplaceAll(audit, dir, dir+"/none"), "the audit cannot be written"},
		"a file":    {"masters = [\"127.0.0.1:1\"]\n[auth]\nusers = [{name = \"default\", password_file = \"" + dir + "/none\"}]\n", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			code := cli.ExitOK
			if c.fault != "" {
				code = cli.ExitUsage
			}
			wantRun(t, code, "", c.fault, "serve", "--check-config", "--config", configFile(t, c.text))
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v: want nothing", left, err)
	}
}
