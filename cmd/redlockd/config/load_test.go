package config

// Goal: flags win over the environment, that over the file, that over the defaults, for every setting;
// and what is read ends where it is used. Method: the same setting from several sources, and the
// resolved options.

import (
	"crypto/tls"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"redlockd/proxy"
	"redlockd/redlock"
)

func TestPrecedence(t *testing.T) {
	const file = "[locks]\nmax_ttl = \"20s\"\n"
	environ := []string{"REDLOCKD_LOCKS_MAX_TTL=30s"}
	flags := map[string]string{"max-ttl": "40s"}
	for _, c := range []struct {
		name    string
		file    string
		environ []string
		flags   map[string]string
		want    time.Duration
		source  string
	}{
		{"nothing", "", nil, nil, 5 * time.Minute, "default"},
		{"file", file, nil, nil, 20 * time.Second, "config.toml:2"},
		{"environment over file", file, environ, nil, 30 * time.Second, "REDLOCKD_LOCKS_MAX_TTL"},
		{"flag over both", file, environ, flags, 40 * time.Second, "--max-ttl"},
		{"flag over file", file, nil, flags, 40 * time.Second, "--max-ttl"},
		{"an empty variable is none", file, []string{"REDLOCKD_LOCKS_MAX_TTL="}, nil, 20 * time.Second, "config.toml:2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := loadText(t, c.file, c.flags, c.environ...)
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.Engine.MaxTTL; got != c.want {
				t.Errorf("max_ttl: got %v, want %v", got, c.want)
			}
			if got := cfg.Find("locks.max_ttl").source.where; got != c.source {
				t.Errorf("source: got %s, want %s", got, c.source)
			}
		})
	}
}

// another is a valid value for each setting that differs from its default, as an environment variable
// has it.
var another = map[string]string{
	"masters":                "h:1,h:2,h:3",
	"server.listen":          "127.0.0.1:7000",
	"server.socket_mode":     "0660",
	"server.socket_owner":    "root:root",
	"http.listen":            "127.0.0.1:7001",
	"http.hosts":             "locks.example.com, 2.example.com",
	"server.tls_cert":        "", // with tls_key only: see TestTLSFiles
	"server.tls_key":         "",
	"server.tls_client_ca":   "",
	"auth.users":             "a:b",
	"metrics.prefixes":       "billing:*",
	"http.tls_cert":          "",
	"http.tls_key":           "",
	"log.level":              "warn",
	"log.format":             "json",
	"audit.locks":            "true",
	"locks.drift_factor":     "0.02",
	"server.max_clients":     "77",
	"server.output_total":    "5000000",
	"fence.always":           "true",
	"compat.allow_unguarded": "true",
	"compat.scripts":         "false",
	"server.protected_mode":  "false",
	"master.username":        "u",
	"master.password":        "p",
	"master.password_file":   "",
	"master.db":              "3",
	"master.tls":             "true",
	"master.tls_ca":          "", // need tls
	"master.tls_cert":        "",
	"master.tls_key":         "",
	"master.tls_server_name": "",
	"client.tls":             "true",
	"locks.min_ttl":          "21ms",
	"compat.default_ttl":     "33s",
	"master.clock_step_max":  "17ms",
	"locks.max_hold":         "25h",
	"locks.max_ttl":          "33s",
	"policy":                 `[{prefix = "a:*", max_ttl = "30s"}]`,
}

// Every setting can be set from the environment, and every flag reaches its setting.
func TestEverySettingFromTheEnvironmentAndItsFlag(t *testing.T) {
	for _, s := range Default().Settings {
		text, ok := another[s.Name]
		if !ok {
			text = "33ms"
			if _, isNumber := s.place.(*int); isNumber {
				text = "33"
			}
		}
		if text == "" {
			continue
		}
		environ := []string{s.Environment() + "=" + text}
		if s.Name == "master.username" {
			environ = append(environ, "REDLOCKD_MASTER_PASSWORD=p")
		}
		c, err := Load(nil, environ)
		if err != nil {
			t.Errorf("%s: %v", environ[0], err)
			continue
		}
		got := c.Find(s.Name)
		if got.unhidden() == s.unhidden() || got.source.where != s.Environment() {
			t.Errorf("%s: got %s from %s, want another value than the default", environ[0], got.unhidden(), got.source.where)
		}
		if s.Flag == "" {
			continue
		}
		byFlag := mustLoad(t, map[string]string{s.Flag: text}).Find(s.Name)
		if byFlag.unhidden() != got.unhidden() || byFlag.source.where != "--"+s.Flag {
			t.Errorf("--%s %s: got %s from %s, want %s", s.Flag, text, byFlag.unhidden(), byFlag.source.where, got.unhidden())
		}
	}
}

func TestFileFromTheEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, level := range map[string]string{"a.toml": "debug", "b.toml": "error"} {
		if err := os.WriteFile(name, fmt.Appendf(nil, "[log]\nlevel = %q\n", level), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := mustLoad(t, nil, "REDLOCKD_CONFIG=a.toml").LogLevel; got != "debug" {
		t.Errorf("REDLOCKD_CONFIG=a.toml: level %s, want debug", got)
	}
	if got := mustLoad(t, map[string]string{"config": "b.toml"}, "REDLOCKD_CONFIG=a.toml").LogLevel; got != "error" {
		t.Errorf("--config b.toml over the variable: level %s, want error", got)
	}
}

// The default file counts where no other is named, and one that is there and cannot be read is an error.
func TestDefaultFile(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { DefaultFile = "" })
	DefaultFile = dir + "/config.toml"
	if c := mustLoad(t, nil); c.LogLevel != "info" || c.CheckServed(c.Listen, "") != nil {
		t.Errorf("no file: level %s, want info, and the embedded masters", c.LogLevel)
	}
	writeFile(t, DefaultFile, "[log]\nlevel = \"debug\"\n", 0o600)
	writeFile(t, dir+"/other.toml", "[log]\nlevel = \"error\"\n", 0o600)
	for _, c := range []struct {
		flags   map[string]string
		environ []string
		want    string
	}{
		{nil, nil, "debug"},
		{nil, []string{"REDLOCKD_CONFIG="}, "debug"},
		{nil, []string{"REDLOCKD_LOG_LEVEL=warn"}, "warn"},
		{nil, []string{"REDLOCKD_CONFIG=" + dir + "/other.toml"}, "error"},
		{map[string]string{"config": dir + "/other.toml"}, nil, "error"},
		{map[string]string{"config": os.DevNull}, nil, "info"},
	} {
		loaded := mustLoad(t, c.flags, c.environ...)
		if loaded.LogLevel != c.want {
			t.Errorf("%v, %v: level %s, want %s", c.flags, c.environ, loaded.LogLevel, c.want)
		}
		if err := loaded.CheckServed(loaded.Listen, ""); err == nil || !strings.Contains(err.Error(), "masters: none are named") {
			t.Errorf("%v, %v: got %v, want it refused without masters", c.flags, c.environ, err)
		}
	}
	if _, err := Load(map[string]string{"config": ""}, nil); err == nil {
		t.Error("--config= takes the default file")
	}
	for _, broken := range []func() error{
		func() error { return os.Symlink(dir+"/nowhere", DefaultFile) },
		func() error { return os.Mkdir(DefaultFile, 0o700) },
	} {
		os.Remove(DefaultFile)
		if err := broken(); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(nil, nil); err == nil || !strings.HasPrefix(err.Error(), "the configuration file "+DefaultFile+" cannot be read: ") {
			t.Errorf("got %v, want that %s cannot be read", err, DefaultFile)
		}
	}
}

func TestMasters(t *testing.T) {
	plain := func(addrs ...string) (all []redlock.Master) {
		for _, a := range addrs {
			all = append(all, redlock.Master{Addr: a})
		}
		return all
	}
	for _, c := range []struct {
		name, file string
		flags      map[string]string
		environ    []string
		want       []redlock.Master
	}{
		{name: "a list", file: `masters = ["a:1", "b:2", "[::1]:3"]`, want: plain("a:1", "b:2", "[::1]:3")},
		{name: "a socket", file: `masters = ["/run/redis.sock"]`, want: plain("/run/redis.sock")},
		{name: "the flag replaces the list", file: `masters = ["a:1", "b:2", "c:3"]`, flags: map[string]string{"masters": "x:1, y:2,z:3"}, want: plain("x:1", "y:2", "z:3")},
		{
			name: "what is shared",
			file: "masters = [\"a:1\"]\n[master]\nusername = \"u\"\npassword = \"p\"\ndb = 2\n",
			want: []redlock.Master{{Addr: "a:1", Username: "u", Password: "p", DB: 2}},
		}, {
			name:    "the list from the file, the password from the environment",
			file:    "masters = [\"a:1\"]\n[master]\nusername = \"u\"\npassword = \"old\"\n",
			environ: []string{"REDLOCKD_MASTER_PASSWORD=new"},
			want:    []redlock.Master{{Addr: "a:1", Username: "u", Password: "new"}},
		}, {
			name: "tables say what is different",
			file: `
				[master]
				username = "u"
				password = "p"
				db = 2
				[[masters]]
				addr = "a:1"
				[[masters]]
				addr = "b:2"
				name = "second"
				password = "own"
				db = 0
				[[masters]]
				addr = "c:3"
				username = "other"`,
			want: []redlock.Master{
				{Addr: "a:1", Username: "u", Password: "p", DB: 2},
				{Addr: "b:2", Name: "second", Username: "u", Password: "own"},
				{Addr: "c:3", Username: "other", Password: "p", DB: 2},
			},
		}, {
			name: "addresses and tables in one list",
			file: `masters = ["a:1", {addr = "b:2", db = 1}, "c:3"]`,
			want: []redlock.Master{{Addr: "a:1"}, {Addr: "b:2", DB: 1}, {Addr: "c:3"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := loadText(t, c.file, c.flags, c.environ...)
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.Engine.Masters; !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
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

func TestPasswordFiles(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/shared", "s3cret\n", 0o600)
	writeFile(t, dir+"/own", "own\r\n", 0o600)
	writeFile(t, dir+"/user", "with space ", 0o600)
	c, err := loadText(t, strings.ReplaceAll(`
		[master]
		password_file = "DIR/shared"
		[[masters]]
		addr = "a:1"
		[[masters]]
		addr = "b:1"
		password_file = "DIR/own"
		[[masters]]
		addr = "c:1"
		password = "plain"
		[[auth.users]]
		name = "default"
		password_file = "DIR/user"`, "DIR", dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"s3cret", "own", "plain"} {
		if got := c.Engine.Masters[i].Password; got != want {
			t.Errorf("password of %s: got %q, want %q", c.Engine.Masters[i].Addr, got, want)
		}
	}
	if want := []proxy.User{{Name: "default", Password: "with space "}}; !reflect.DeepEqual(c.Front.Users, want) {
		t.Errorf("users: got %+v, want %+v", c.Front.Users, want)
	}
	// Of the two ways, the one from the source that wins.
	for _, over := range []struct {
		file, variable, want string
	}{
		{"password = \"file\"", "PASSWORD_FILE=" + dir + "/shared", "s3cret"},
		{"password_file = \"" + dir + "/shared\"", "PASSWORD=env", "env"},
	} {
		c, err := loadText(t, "masters = [\"a:1\"]\n[master]\n"+over.file, nil, "REDLOCKD_MASTER_"+over.variable)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Engine.Masters[0].Password; got != over.want {
			t.Errorf("%s in the file, %s: got %q, want %q", over.file, over.variable, got, over.want)
		}
	}
}

func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	c, err := loadText(t, strings.ReplaceAll(`
		masters = ["redis-1:6379", "redis-2:6379", {addr = "redis-3:6379", tls = false}]
		[server]
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
		tls_client_ca = "DIR/cert.pem"
		[auth]
		users = [{name = "billing", cert_cn = "billing.example"}]
		[master]
		tls = true
		tls_ca = "DIR/cert.pem"
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
		[http]
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"`, "DIR", dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	front := c.Front.TLSConfig
	if front == nil || front.GetCertificate == nil || front.ClientAuth != tls.RequireAndVerifyClientCert || front.ClientCAs == nil || front.MinVersion != tls.VersionTLS12 {
		t.Errorf("server: got %+v, want a certificate, client certificates demanded, TLS 1.2 at least", front)
	}
	if users := c.Front.Users; len(users) != 1 || users[0].CertCN != "billing.example" {
		t.Errorf("users: got %+v, want one who logs in by its certificate", users)
	}
	for i, m := range []*tls.Config{c.Engine.Masters[0].TLS, c.Engine.Masters[1].TLS, c.Engine.Common.TLS} {
		if m == nil || m.ServerName != "" || m.RootCAs == nil || m.GetClientCertificate == nil || m.InsecureSkipVerify || m.MinVersion != tls.VersionTLS12 {
			t.Errorf("master %d: got %+v, want the name of the address, our authorities, our certificate, TLS 1.2 at least", i, m)
		}
	}
	if web := c.HTTPTLS; web == nil || web.GetCertificate == nil || web.ClientAuth != tls.NoClientCert || web.MinVersion != tls.VersionTLS12 {
		t.Errorf("http: got %+v, want a certificate, no client certificates, TLS 1.2 at least", web)
	}
	if m := c.Engine.Masters[2].TLS; m != nil {
		t.Errorf("master with tls = false: got %+v, want no TLS", m)
	}
	named, err := loadText(t, "masters = [\"/run/redis.sock\"]\n[master]\ntls = true\ntls_server_name = \"locks.example\"\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := named.Engine.Masters[0].TLS; m.ServerName != "locks.example" || m.RootCAs != nil {
		t.Errorf("got name %q, authorities %v; want locks.example, those of the system", m.ServerName, m.RootCAs)
	}
}

func TestFrontSettingsHideSecrets(t *testing.T) {
	c := mustLoad(t, nil, "REDLOCKD_MASTER_PASSWORD=s3cret", "REDLOCKD_AUTH_USERS=app:s3cret", "REDLOCKD_MASTERS=a:1")
	got := make(map[string]string)
	for _, s := range c.ForCONFIG() {
		got[s.Name] = s.Value
		if strings.Contains(s.Value, "s3cret") {
			t.Errorf("%s = %s gives a secret away", s.Name, s.Value)
		}
	}
	for name, want := range map[string]string{"locks.max_ttl": "5m", "server.max_clients": "10000", "master.password": "(hidden)", "masters": `["a:1"]`} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}
