package config

// Goal: a master can be named by the URL that other Redis tools take, and its password is nowhere shown. Method: a table of URLs and
// what is made of them; the mistakes are in mistakes_test.go.

import (
	"fmt"
	"strings"
	"testing"
)

func TestMasterURLs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"redis://a", "a:6379 user= password= db=0 tls=false"},
		{"redis://a:1", "a:1 user= password= db=0 tls=false"},
		{"redis://:" + secret + "@a:1", "a:1 user= password=" + secret + " db=0 tls=false"},
		{"redis://u:" + secret + "@a:1/", "a:1 user=u password=" + secret + " db=0 tls=false"},
		{"rediss://u:p%40%2C%2F@[::1]:1/3", "[::1]:1 user=u password=p@,/ db=3 tls=true"},
		{"rediss://a:1", "a:1 user= password= db=0 tls=true"},
		{"a:1", "a:1 user= password= db=0 tls=false"},
		{"a:1/3", "a:1 user= password= db=3 tls=false"},
		{"/run/redis.sock/3", "/run/redis.sock user= password= db=3 tls=false"},
	} {
		for name, source := range map[string]func() (*Config, error){
			"variable": func() (*Config, error) { return Load(nil, []string{"REDLOCKD_MASTERS=" + c.text}) },
			"flag":     func() (*Config, error) { return Load(map[string]string{"masters": c.text}, nil) },
			"file": func() (*Config, error) {
				t.Chdir(t.TempDir())
				writeFile(t, "config.toml", fmt.Sprintf("masters = [%q]\n", c.text), 0o600)
				return Load(map[string]string{"config": "config.toml"}, nil)
			},
		} {
			cfg, err := source()
			if err != nil {
				t.Errorf("%s as a %s: %v", c.text, name, err)
				continue
			}
			m := cfg.Engine.Masters[0]
			if got := fmt.Sprintf("%s user=%s password=%s db=%d tls=%v", m.Addr, m.Username, m.Password, m.DB, m.TLS != nil); got != c.want {
				t.Errorf("%s as a %s: got %s, want %s", c.text, name, got, c.want)
			}
			var printed strings.Builder
			cfg.Print(&printed)
			if strings.Contains(printed.String(), secret) {
				t.Errorf("%s as a %s: --print-config shows the password:\n%s", c.text, name, printed.String())
			}
			seen := strings.Contains(strings.Join(cfg.Warnings, "\n"), "list of processes")
			if want := name == "flag" && m.Password != ""; seen != want {
				t.Errorf("%s as a %s: warnings %q; want one about the list of processes: %v", c.text, name, cfg.Warnings, want)
			}
		}
	}
}

// What [master] says holds for a URL, too, where that says nothing else.
func TestMasterURLsShareSettings(t *testing.T) {
	cfg, err := Load(nil, []string{"REDLOCKD_MASTERS=redis://a:1,redis://u:own@b:1,c:1", "REDLOCKD_MASTER_PASSWORD=shared"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range cfg.Engine.Masters {
		got = append(got, m.Username+":"+m.Password)
	}
	if want := ":shared u:own :shared"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// What reaches masters that the list does not name is what [master] says, and never what the table of another one says. Nor is its password sent
// without the TLS that it belongs to.
func TestMastersThatAreNotListed(t *testing.T) {
	for _, tt := range []struct{ settings, want string }{
		{`masters = ["redis://u:own@a:1/3"]`, " db=0 tls=false"},
		{"[master]\npassword = \"shared\"\ndb = 2\ntls = true\n[[masters]]\naddr = \"a:1\"\npassword = \"own\"\ndb = 3\ntls = false", "shared db=2 tls=true"},
		{"[master]\npassword = \"shared\"\ndb = 2\ntls = true\ntls_ca = \"none.pem\"\n[[masters]]\naddr = \"a:1\"\ntls = false", " db=2 tls=false"},
		{"[master]\nusername = \"u\"\n[[masters]]\naddr = \"a:1\"\npassword = \"own\"", " db=0 tls=false"},
	} {
		cfg, err := loadText(t, tt.settings, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.settings, err)
			continue
		}
		if m := cfg.Engine.Common; fmt.Sprintf("%s db=%d tls=%v", m.Password, m.DB, m.TLS != nil) != tt.want || m.Addr != "" || m.Username != "" {
			t.Errorf("%s: got %+v, want %s", tt.settings, m, tt.want)
		}
	}
}

// Neither a syntax error in the line nor a URL in the wrong place shows its password.
func TestMasterURLsInAFileAreHidden(t *testing.T) {
	for _, text := range []string{
		`masters = ["redis://u:` + secret + `@a:1" "b:1"]`,
		`masters = ["redis://u:x=` + secret + `@a:1]`,
		"masters = [\n  \"rediss://u:" + secret + "@a:1\n]",
		"[[masters]]\naddr = \"redis://u:" + secret + "@a:1\"",
		`masters = ["redis://u:` + secret + `@a:b"]`,
	} {
		t.Chdir(t.TempDir())
		writeFile(t, "config.toml", text, 0o600)
		if _, err := Load(map[string]string{"config": "config.toml"}, nil); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want an error without the password", text, err)
		}
	}
}
