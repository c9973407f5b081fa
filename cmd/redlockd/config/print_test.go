package config

// Goal: --print-config shows what is in effect and where it comes from, and never a password; what it prints can be loaded
// again exactly if there is none. Method: print, compare, load what was printed.

import (
	"regexp"
	"strings"
	"testing"
)

const filled = `masters = ["a:1", {addr = "b:1", name = "second", username = "u", password = "hunter2", tls = false}, "c:1"]
[server]
max_clients = 50
[auth]
users = [{name = "app", password = "hunter2", resources = ["app:*", "it's"], max_locks = 9, max_ttl = "30s"}]
[master]
password = "hunter2"
timeout = "40ms"
`

func TestPrintConfig(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "config.toml", filled+"[[policy]]\nprefix = \"app:*\"\nmax_ttl = \"30s\"\nfence = \"always\"\n", 0o600)
	var printed strings.Builder
	mustLoad(t, map[string]string{"config": "config.toml", "max-ttl": "90s"}, "REDLOCKD_LOG_FORMAT=json").Print(&printed)
	got := printed.String()
	squeezed := regexp.MustCompile(` +`).ReplaceAllString(got, " ")
	for _, want := range []string{
		`masters = ["a:1", {addr = "b:1", name = "second", username = "u", password = (hidden), tls = false}, "c:1"] # config.toml:1` + "\n",
		"\n[server]\nlisten = \"127.0.0.1:6380\" # default\nsocket_mode = \"0600\" # default\nsocket_owner = \"\" # default\nprotected_mode = true # default\nmax_clients = 50 # config.toml:3\n",
		"\nusers = [{name = \"app\", password = (hidden), resources = [\"app:*\", \"it's\"], max_locks = 9, max_ttl = \"30s\"}] # config.toml:5\n",
		"policy = [{prefix = \"app:*\", max_ttl = \"30s\", fence = \"always\"}] # config.toml:9\n",
		"\nformat = \"json\" # REDLOCKD_LOG_FORMAT\n",
		"\nmax_ttl = \"1m30s\" # --max-ttl\n",
		"\npassword = (hidden) # config.toml:7\n",
		"\npassword_file = \"\" # default\n",
	} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("got\n%s\nwant in it %q", got, want)
		}
	}
	if strings.Contains(got, secret) {
		t.Errorf("a password is printed:\n%s", got)
	}
	// If the output is saved and loaded, the word that stands for the password is no password.
	if _, err := loadText(t, got, nil); err == nil || !strings.Contains(err.Error(), "a password cannot be read") {
		t.Errorf("the output with hidden passwords was loaded: got error %v, want one about a password", err)
	}
}

func TestWhatIsPrintedLoadsAgain(t *testing.T) {
	for _, file := range []string{
		"",
		"masters = \"embedded\"\n",
		"masters = [\"a:1\", \"/run/redis socket\", \"[::1]:3\"]\n[locks]\ndrift_factor = 0.5\nmax_ttl = \"1h0m5s\"\nmax_hold = \"87600h\"\n",
		"[[masters]]\naddr = \"a:1\"\nname = \"quo\\\"te\\\\ \\u0001\\u007f é\"\ndb = 3\n",
		"[fence]\nalways = true\n",
		"[locks]\nmin_ttl = \"1s\"\n[[policy]]\nprefix = \"a \\\"b\\\"\"\nmax_ttl = \"30s\"\nlock_delay = \"30s\"\n[[policy]]\nprefix = \"c\"\nfence = \"always\"\nmax_waiters = 3\nmax_wait = \"1m\"\nmax_hold = \"2h\"\n",
	} {
		first, err := loadText(t, file, nil)
		if err != nil {
			t.Fatalf("%q: %v", file, err)
		}
		var printed strings.Builder
		first.Print(&printed)
		again, err := loadText(t, printed.String(), nil)
		if err != nil {
			t.Fatalf("%q: printed as\n%s\nwhich does not load: %v", file, &printed, err)
		}
		for i, s := range first.Settings {
			if got := again.Settings[i].Text(); got != s.Text() {
				t.Errorf("%q: %s: got %s after printing and loading, want %s", file, s.Name, got, s.Text())
			}
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for _, text := range []string{"50ms", "1s", "90ms", "1m", "1m1s", "1m30s", "10m", "1h", "1h1m", "1h0m5s", "24h", "20m10s", "1.5s", "0s", "100h", "-5s", "1µs"} {
		d, err := ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := FormatDuration(d); got != text {
			t.Errorf("%s: got %s", text, got)
		}
	}
}
