package main

// Goal: the unit, and the package for Debian, do under a real systemd what they promise. Method: a systemd boots in namespaces of its own, over a
// copy-on-write view of a root file system: this machine's, or that of a small Debian. A script beside the unit says what it sees.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// systemdBoot starts a systemd over the root $2 as the first process of its namespaces. What it writes outside of them is in the directory $1,
// which is /run/test for it.
const systemdBoot = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$2,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
cd /mnt/root
mount -t proc proc proc
mount --rbind /dev dev
mount -t sysfs sysfs sys
mount -t cgroup2 none sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p run/lock run/test
mount --bind "$1" run/test
chroot . sh -e /run/test/setup.sh
container=test exec chroot . /usr/lib/systemd/systemd --system --unit=probe.target --log-target=console --show-status=no
`

// systemdUnits has the script beside the unit. systemd ends with it.
var systemdUnits = map[string]string{
	"units/probe.target": "[Unit]\nRequires=probe.service\nAfter=probe.service\n",
	"units/probe.service": "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStopPost=systemctl exit 0\n" +
		"StandardOutput=file:/run/test/out\nStandardError=file:/run/test/out\nExecStart=/bin/sh /run/test/probe.sh\n",
}

// systemdTools are what the scripts have in common.
const systemdTools = `
ask() { REDISCLI_AUTH=secret redis-cli --no-auth-warning -s /run/redlockd/redlockd.sock "$@" 2>&1 | tr '\n' ' '; }
show() { systemctl show redlockd -p "$1" --value; }
state() { echo "$(show ActiveState), restarts: $(show NRestarts), $(show StatusText)"; }
until_is() { for i in $(seq 300); do [ "$(state)" = "$1" ] && break; sleep 0.2; done; state; }
`

// systemdNamespaces are those that it has for itself.
var systemdNamespaces = []string{"--mount", "--pid", "--fork", "--mount-proc", "--cgroup", "--uts", "--ipc", "--net"}

// needSystemd leaves the test out where none can be started.
func needSystemd(t *testing.T) {
	t.Helper()
	redisproc.Need(t, "systemctl", "systemd-sysusers", "unshare", "redis-cli")
	if os.Geteuid() != 0 {
		redisproc.Skip(t, "only root can start a systemd")
	}
	if out, err := exec.Command("unshare", append(slices.Clone(systemdNamespaces), "mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")...).CombinedOutput(); err != nil {
		redisproc.Skip(t, fmt.Sprintf("no systemd can be started here: %v, %s", err, out))
	}
}

// underSystemd boots a systemd with these files in /run/test: setup.sh runs before, and probe.sh beside the units. It returns what probe.sh has
// printed, and the console. patience bounds it.
func underSystemd(t *testing.T, dir, root string, patience time.Duration, files map[string]string) (printed, console string) {
	t.Helper()
	needSystemd(t)
	files["boot.sh"] = systemdBoot
	files["setup.sh"] = "mkdir -p /etc/systemd/system\ncp -r /run/test/units/. /etc/systemd/system\n" + files["setup.sh"]
	files["probe.sh"] = systemdTools + files["probe.sh"]
	for _, all := range []map[string]string{systemdUnits, files} {
		for name, text := range all {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, text, 0o644)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // redlockd runs as a user of its own
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "unshare", append(slices.Clone(systemdNamespaces), "--kill-child", "sh", filepath.Join(dir, "boot.sh"), dir, root)...).CombinedOutput()
	text, _ := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Errorf("systemd: %v", err)
	}
	return string(text), string(out)
}

// systemdProbe is what the unit is put through.
const systemdProbe = `
systemctl start redlockd
until_is "active, restarts: 0, locks are granted"
stat -c %U "/proc/$(show MainPID)"
ask LOCK r 60s TOKEN granted | cut -d ' ' -f 1
sed -i 's/max_clients = 100/max_clients = 200/' /run/test/config.toml
systemctl reload redlockd && ask CONFIG GET maxclients; echo
sed -i 's/max_clients = 200/max_clients = 300\nlimit = 3/' /run/test/config.toml
systemctl reload redlockd 2>/dev/null || echo "the reload has failed"
state
ask CONFIG GET maxclients; echo
sed -i 's/^limit = 3//; s/0666/0777/' /run/test/config.toml
systemctl reload redlockd 2>/dev/null || echo "the reload has failed"
state
ask CONFIG GET maxclients; echo
sed -i 's/0777/0666/' /run/test/config.toml
systemctl reload redlockd && state
stat -c '%A %U' /run/redlockd/reload.sock
redis-cli -s /run/redlockd/reload.sock CONFIG RELOAD
kill -STOP "$(show MainPID)"
until_is "active, restarts: 1, locks are granted"
systemctl stop redlockd
echo "$(show ActiveState), $(show Result), exit $(show ExecMainStatus)"
echo 'nonsense' >>/run/test/config.toml
systemctl start redlockd 2>/dev/null || echo "the start has failed"
until_is "failed, restarts: 5, "
`

// The unit starts as its user with all that it forbids itself, reads a password that is for this user alone, tells that it serves, is
// started again when it hangs, and stops. A reload has ended when systemctl returns, and fails where anything is not in force. A server that
// cannot start is given up.
func TestUnitUnderSystemd(t *testing.T) {
	path := binary(t)
	dir := t.TempDir()
	output(t, dir, "cp", "-L", path, "redlockd")
	writeFile(t, filepath.Join(dir, "password"), "secret\n", 0o600)
	got, console := underSystemd(t, dir, "/", 2*time.Minute, map[string]string{
		"setup.sh": "cp /run/test/redlockd /usr/local/bin/redlockd\nsystemd-sysusers /run/test/sysusers.conf\nchown redlockd /run/test/password\n",
		"probe.sh": systemdProbe,
		"config.toml": "masters = \"embedded\"\n[server]\nlisten = \"unix:/run/redlockd/redlockd.sock\"\nsocket_mode = \"0666\"\nmax_clients = 100\n" +
			"[auth]\nusers = [{name = \"default\", password_file = \"/run/test/password\"}]\n",
		"sysusers.conf":                          readDocker(t, "sysusers.conf"),
		"units/redlockd.service":                 strings.ReplaceAll(readDocker(t, "redlockd.service"), "/etc/redlockd/config.toml", "/run/test/config.toml"),
		"units/redlockd.service.d/override.conf": "[Service]\nWatchdogSec=4\nTimeoutAbortSec=1\n",
	})
	const want = `active, restarts: 0, locks are granted
redlockd
granted
maxclients 200 
the reload has failed
active, restarts: 0, locks are granted; the last reload failed, the settings before it are in force: /run/test/config.toml:6: unknown setting server.limit
maxclients 200 
the reload has failed
active, restarts: 0, locks are granted; settings not in force before a restart: server.socket_mode
maxclients 300 
active, restarts: 0, locks are granted
srw------- redlockd
nothing
active, restarts: 1, locks are granted
inactive, success, exit 0
the start has failed
failed, restarts: 5, 
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s\nthe console:\n%s", got, want, console)
	}
}
