package main

// Goal: the package for Debian upgrades a server that runs, or leaves it alone. Method: packages of several versions, of the program that the
// tests build, are installed by dpkg beside a systemd and three masters. TestPackage plays it on this machine's own system, TestPackageOnDebian
// on a Debian that has nothing else.

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// oldPostinst is that of a package which did not check the configuration, and whose file everybody could read.
const oldPostinst = `#!/bin/sh
set -e
systemd-sysusers redlockd.conf
[ -n "$2" ] || chgrp redlockd /etc/redlockd/config.toml
systemctl daemon-reload
systemctl try-restart redlockd.service
`

// packageProbe is what the package is put through. Each step begins with a line of its own.
const packageProbe = `
step() { echo "== $*"; }
config=/etc/redlockd/config.toml
install_version() { dpkg --no-triggers -i "/run/test/$1.deb" >/run/test/dpkg 2>&1; echo "dpkg $?"; grep -A9 '^redlockd: ' /run/test/dpkg; }
mode() { stat -c '%a %U:%G' "$config"; }
pid() { show MainPID; }
restarted() { [ "$(pid)" != "$before" ] && echo "another process" || echo "the same process"; before=$(pid); }
holds() { [ "$(ask EXTEND kept "$token" 5m)" -gt 0 ] && echo "the lock is held"; [ "$(ask LOCK kept 60s)" = " " ] && echo "by nobody else"; }
grants() { ask LOCK "$1" 60s TOKEN granted | cut -d ' ' -f 1; }

for port in 7001 7002 7003; do
  mkdir "/tmp/$port"
  redis-server --port $port --dir "/tmp/$port" --save '' --maxmemory-policy noeviction --daemonize yes >/dev/null
done

step an old version is installed and started
install_version 0.9
mode
show ActiveState
cat >"$config" <<END
masters = ["127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"]
[server]
listen = "unix:/run/redlockd/redlockd.sock"
max_clients = 100
[auth]
users = [{name = "default", password = "sha256:$(printf secret | sha256sum | cut -d ' ' -f 1)"}]
END
cp "$config" /run/test/good
redlockd bootstrap --config "$config" >/dev/null 2>&1 && systemctl enable --now redlockd 2>/dev/null
until_is "active, restarts: 0, locks are granted"
token=mine
ask LOCK kept 5m TOKEN $token | cut -d ' ' -f 1
before=$(pid)

step an upgrade
install_version 1.0
restarted
until_is "active, restarts: 0, locks are granted"
holds
mode

step reloads
sed -i 's/max_clients = 100/max_clients = 200/' "$config"
systemctl reload redlockd && ask CONFIG GET maxclients; echo
echo '[nonsense]' >>"$config"
systemctl reload redlockd 2>/dev/null || echo "the reload has failed"
ask CONFIG GET maxclients; echo

step an upgrade beside a configuration that is wrong
install_version 1.1
restarted
grants beside
holds
systemctl list-units --all --plain --no-legend 'redlockd*' | cut -d ' ' -f 1-4 | tr -s ' '
ls /run/systemd/system /run/redlockd | grep redlockd-check

step an upgrade beside a file that only root can read
sed 's/password = .*/password_file = "\/etc\/redlockd\/password"}]/' /run/test/good >"$config"
(umask 077 && echo secret >/etc/redlockd/password)
install_version 1.2
restarted
grants unreadable

step settings in a drop-in count, its programs are run by the restart alone, and the file of the operator keeps its mode
sed 's/^masters/# &/' /run/test/good >"$config"
chown redlockd "$config" && chmod 600 "$config"
mkdir /etc/systemd/system/redlockd.service.d
printf '[Service]\nExecStartPre=+/bin/sh -c "echo started >>/run/test/started"\nEnvironment=REDLOCKD_MASTERS=127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003\n' >/etc/systemd/system/redlockd.service.d/masters.conf
install_version 1.1
restarted
cat /run/test/started
holds
mode

step a unit of the operator that starts something else
printf '[Service]\nExecStart=\nExecStart=/bin/sh -c "exec redlockd serve --config %s"\n' "$config" >/etc/systemd/system/redlockd.service.d/masters.conf
cp /run/test/good "$config"
install_version 1.2
restarted
rm /etc/systemd/system/redlockd.service.d/masters.conf
systemctl daemon-reload

step an upgrade with an address that is taken
sed 's/^listen.*/listen = ["unix:\/run\/redlockd\/redlockd.sock", "127.0.0.1:7001"]/' /run/test/good >"$config"
install_version 1.3
for i in $(seq 300); do [ "$(show ActiveState)" = failed ] && break; sleep 0.2; done
show ActiveState
cp /run/test/good "$config"
systemctl reset-failed redlockd
systemctl start redlockd
holds

step a downgrade
before=$(pid)
install_version 1.0
restarted
holds

step a mode that the administrator wants
dpkg-statoverride --update --add root root 644 "$config"
install_version 1.1
mode

step a server that does not run is not started
systemctl stop redlockd
install_version 1.2
show ActiveState

step removed and purged
systemctl start redlockd
before=$(pid)
dpkg --no-triggers -r redlockd >/dev/null 2>&1; echo "dpkg $?"
kill -0 "$before" 2>/dev/null || echo "no server"
ls "$config"
rm /etc/redlockd/password
dpkg --no-triggers -P redlockd >/dev/null 2>&1; echo "dpkg $?"
ls -d /etc/redlockd 2>&1
id -un redlockd
`

const packagePrinted = `== an old version is installed and started
dpkg 0
644 root:redlockd
inactive
active, restarts: 0, locks are granted
mine
== an upgrade
dpkg 0
redlockd: only root and the group redlockd can read /etc/redlockd/config.toml from now on (0640). For others who call redlockd's commands: usermod -aG redlockd NAME
another process
active, restarts: 0, locks are granted
the lock is held
by nobody else
640 root:redlockd
== reloads
maxclients 200 
the reload has failed
maxclients 200 
== an upgrade beside a configuration that is wrong
dpkg 0
redlockd: the server was NOT restarted. Its configuration has not passed the check of the new version:
redlockd: /etc/redlockd/config.toml:7: unknown group [nonsense]
redlockd: The version before goes on. To have the new one, correct that, then: systemctl restart redlockd
the same process
granted
the lock is held
by nobody else
redlockd.service loaded active running
== an upgrade beside a file that only root can read
dpkg 0
redlockd: the server was NOT restarted. Its configuration has not passed the check of the new version:
redlockd: /etc/redlockd/config.toml:6: auth.users[0]: password_file: /etc/redlockd/password cannot be read: permission denied: run redlockd as a user who may read it, or name another file
redlockd: The version before goes on. To have the new one, correct that, then: systemctl restart redlockd
the same process
granted
== settings in a drop-in count, its programs are run by the restart alone, and the file of the operator keeps its mode
dpkg 0
another process
started
the lock is held
by nobody else
600 redlockd:redlockd
== a unit of the operator that starts something else
dpkg 0
redlockd: the server was NOT restarted. Its configuration has not passed the check of the new version:
redlockd: ExecStart= of redlockd.service names another program, which cannot be asked
redlockd: The version before goes on. To have the new one, correct that, then: systemctl restart redlockd
the same process
== an upgrade with an address that is taken
dpkg 0
redlockd: the new version was started and is NOT ready: locks are granted by other redlockds alone.
redlockd: systemctl status redlockd says why. Correct it, then: systemctl restart redlockd
failed
the lock is held
by nobody else
== a downgrade
dpkg 0
another process
the lock is held
by nobody else
== a mode that the administrator wants
dpkg 0
644 root:root
== a server that does not run is not started
dpkg 0
inactive
== removed and purged
dpkg 0
no server
/etc/redlockd/config.toml
dpkg 0
ls: cannot access '/etc/redlockd': No such file or directory
redlockd
`

func TestPackage(t *testing.T) {
	redisproc.Need(t, "dpkg-deb")
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		redisproc.Skip(t, "this machine does not run Debian, nor what is made from it")
	}
	playPackage(t, "/")
}

func TestPackageOnDebian(t *testing.T) {
	redisproc.Release(t)
	redisproc.Need(t, "dpkg-deb", "debootstrap")
	needSystemd(t)
	archive, err := filepath.Abs("testdata/debian/build/package.tar")
	if err != nil {
		t.Fatal(err)
	}
	output(t, ".", filepath.Join(dockerDir, "package/debian.sh"), archive, "systemd", "redis-server")
	root := t.TempDir()
	output(t, root, "tar", "-xf", archive)
	playPackage(t, root)
}

func playPackage(t *testing.T, root string) {
	path := binary(t)
	dir := t.TempDir()
	t.Setenv("COMPRESSION", "none")
	output(t, ".", filepath.Join(dockerDir, "package/deb.sh"), path, runtime.GOARCH, "1.0", dir+"/1.0.deb")
	output(t, dir, "dpkg-deb", "--raw-extract", "1.0.deb", "tree")
	pack := func(version string) {
		output(t, dir, "sed", "-i", "s/^Version: .*/Version: "+version+"/", "tree/DEBIAN/control")
		output(t, dir, "dpkg-deb", "--root-owner-group", "-Znone", "--build", "tree", version+".deb")
	}
	for _, version := range []string{"1.1", "1.2", "1.3"} {
		pack(version)
	}
	writeFile(t, dir+"/tree/DEBIAN/postinst", oldPostinst, 0o755)
	output(t, dir, "chmod", "644", "tree/etc/redlockd/config.toml")
	output(t, dir, "sed", "-i", "s/^ExecReload=.*/ExecReload=kill -HUP $MAINPID/", "tree/usr/lib/systemd/system/redlockd.service")
	pack("0.9")
	got, console := underSystemd(t, dir, root, 5*time.Minute, map[string]string{"probe.sh": packageProbe})
	if got != packagePrinted {
		t.Errorf("got\n%s\nwant\n%s\nthe console:\n%s", got, packagePrinted, console)
	}
}
