package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// systemdBoot starts a systemd with the unit, as the first process of namespaces of its own. What it
// writes outside them is in the directory $1.
const systemdBoot = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/test
mount --bind "$1" /run/test
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /usr/local/bin
mount -t tmpfs tmpfs /etc/systemd/system
mount -t cgroup2 none /sys/fs/cgroup
cp /run/test/redlockd /usr/local/bin/redlockd
mkdir -p /run/made/etc
cp /etc/passwd /etc/group /run/made/etc
systemd-sysusers --root=/run/made /run/test/sysusers.conf
mount --bind /run/made/etc/passwd /etc/passwd
mount --bind /run/made/etc/group /etc/group
chown redlockd /run/test/password
cp -r /run/test/units/. /etc/systemd/system
container=test exec systemd --system --unit=probe.target --log-target=console --show-status=no
`

// systemdProbe is what runs beside the unit. systemd ends with it.
const systemdProbe = `
export REDISCLI_AUTH=secret
ask() { redis-cli --no-auth-warning -s /run/redlockd/redlockd.sock "$@" | tr '\n' ' '; }
show() { systemctl show redlockd -p "$1" --value; }
state() { echo "$(show ActiveState), restarts: $(show NRestarts), $(show StatusText)"; }
until_is() { for i in $(seq 300); do [ "$(state)" = "$1" ] && break; sleep 0.2; done; state; }

until_is "active, restarts: 0, locks are granted"
stat -c %U "/proc/$(show MainPID)"
ask LOCK r 60s TOKEN granted | cut -d ' ' -f 1
sed -i 's/max_clients = 100/max_clients = 200/' /run/test/config.toml
systemctl reload redlockd
for i in $(seq 100); do [ "$(ask CONFIG GET maxclients)" = "maxclients 200 " ] && break; sleep 0.1; done
echo $(ask CONFIG GET maxclients)
kill -STOP "$(show MainPID)"
until_is "active, restarts: 1, locks are granted"
systemctl stop redlockd
echo "$(show ActiveState), $(show Result), exit $(show ExecMainStatus)"
systemctl exit 0
`

// The unit under a real systemd: it starts as its user with all that it forbids itself, reads a password that is for this user alone, tells that it serves, takes
// over another file, is started again when it hangs, and stops.
func TestUnitUnderSystemd(t *testing.T) {
	redisproc.Need(t, "systemctl", "systemd-sysusers", "unshare", "redis-cli")
	if os.Geteuid() != 0 {
		t.Skip("only root can start a systemd")
	}
	apart := []string{"--mount", "--pid", "--fork", "--mount-proc", "--cgroup", "--uts", "--ipc"}
	if out, err := exec.Command("unshare", append(apart, "mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")...).CombinedOutput(); err != nil {
		t.Skipf("no systemd can be started here: %v, %s", err, out)
	}
	path := binary(t)
	dir := t.TempDir()
	if out, err := exec.Command("cp", "-L", path, filepath.Join(dir, "redlockd")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(dir, "units", "redlockd.service.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"boot.sh":                                systemdBoot,
		"probe.sh":                               systemdProbe,
		"config.toml":                            "masters = \"embedded\"\n[server]\nlisten = \"unix:/run/redlockd/redlockd.sock\"\nsocket_mode = \"0666\"\nmax_clients = 100\n[auth]\nusers = [{name = \"default\", password_file = \"/run/test/password\"}]\n",
		"sysusers.conf":                          readDocker(t, "sysusers.conf"),
		"units/redlockd.service":                 strings.ReplaceAll(readDocker(t, "redlockd.service"), "/etc/redlockd/config.toml", "/run/test/config.toml"),
		"units/redlockd.service.d/override.conf": "[Service]\nWatchdogSec=4\nTimeoutAbortSec=1\n",
		"units/probe.target":                     "[Unit]\nRequires=probe.service\nAfter=probe.service\n",
		"units/probe.service": "[Unit]\nDefaultDependencies=no\nWants=redlockd.service\nAfter=redlockd.service\n[Service]\nType=oneshot\n" +
			"StandardOutput=file:/run/test/out\nStandardError=file:/run/test/out\nExecStart=/bin/sh /run/test/probe.sh\n",
	} {
		writeFile(t, filepath.Join(dir, name), text, 0o644)
	}
	writeFile(t, filepath.Join(dir, "password"), "secret\n", 0o600)
	if err := os.Chmod(dir, 0o755); err != nil { // redlockd runs as a user of its own
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	console, err := exec.CommandContext(ctx, "unshare", append(apart, "--kill-child", "sh", filepath.Join(dir, "boot.sh"), dir)...).CombinedOutput()
	got, _ := os.ReadFile(filepath.Join(dir, "out"))
	const want = `active, restarts: 0, locks are granted
redlockd
granted
maxclients 200
active, restarts: 1, locks are granted
inactive, success, exit 0
`
	if err != nil || string(got) != want {
		t.Errorf("%v, got\n%s\nwant\n%s\nthe console:\n%s", err, got, want, console)
	}
}
