#!/usr/bin/env bash
# Makes a package for Debian and Ubuntu of a redlockd that was built before, with dpkg-deb alone.
#
#   deb.sh BINARY ARCHITECTURE VERSION OUT.deb
#
# ARCHITECTURE is what Debian calls it (amd64, arm64). If the binary cannot run here, REDLOCKD names one of the same version that can:
# it prints the manual page and the completions. MAINTAINER is "Name <address>" of who answers for the package: yours, if you publish it.
# COMPRESSION is xz, or another one that dpkg-deb knows. The same input gives the same package: SOURCE_DATE_EPOCH is the time of all files.
#
# Rejected: nfpm. It would take over the control file and the tree, a third of this, from a YAML file of the same length; the manual page,
# the completions, the licences, the unit and the version for Debian would still be made here. It is worth it once there is an RPM as well.
set -euo pipefail
[ $# = 4 ] || { echo "usage: deb.sh BINARY ARCHITECTURE VERSION OUT.deb" >&2; exit 2; }
maintainer=${MAINTAINER:-The redlockd authors <redlockd@redlockd.invalid>}
binary=$1 architecture=$2 version=$3 out=$4
docker=$(cd "$(dirname "$0")/.." && pwd)
printer=${REDLOCKD:-$(realpath "$binary")}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$docker" log -1 --format=%ct)}

# Debian sorts 1.2.0~rc1 before 1.2.0, and 1.2.0+5 behind it.
version=$(sed -E 's/-(alpha|beta|rc)/~\1/; s/-/+/; s/-/./g' <<<"$version")

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree" # it stands for / in the package
put() { install -D -m "$1" "$2" "$tree/$3"; }
put 755 "$binary" usr/bin/redlockd
put 640 <(sed 's/^masters = "embedded"$/masters = []/' "$docker/../config.toml") etc/redlockd/config.toml # it does not start before they are named
put 644 <(sed 's#/usr/local/bin/#/usr/bin/#; s#/etc/systemd/system/#/usr/lib/systemd/system/#' "$docker/redlockd.service") usr/lib/systemd/system/redlockd.service
put 644 "$docker/sysusers.conf" usr/lib/sysusers.d/redlockd.conf
put 644 <("$printer" man | gzip -9n) usr/share/man/man1/redlockd.1.gz
put 644 <("$printer" completion bash) usr/share/bash-completion/completions/redlockd
put 644 <("$printer" completion zsh) usr/share/zsh/vendor-completions/_redlockd
put 644 <("$printer" completion fish) usr/share/fish/vendor_completions.d/redlockd.fish
licences=$("$docker/package/licenses.sh" "$binary")
put 644 <(sed '/^ *Apache License$/,$d' <<<"$licences"
  echo " On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.") usr/share/doc/redlockd/copyright
put 644 <(gzip -9n <<EOF
redlockd ($version) unstable; urgency=medium

  * What has changed since the version before, its source tells.

 -- $maintainer  $(LC_ALL=C date -uRd "@$SOURCE_DATE_EPOCH")
EOF
) usr/share/doc/redlockd/changelog.gz
put 644 /dev/stdin usr/share/lintian/overrides/redlockd <<'EOF'
# A Go program: it needs no library, and the licences of all that is in it are in its copyright file.
redlockd: statically-linked-binary
# Passwords may stand in it.
redlockd: non-standard-file-perm 0640 != 0644 [etc/redlockd/config.toml]
# Only where systemd runs, as deb-systemd-invoke would.
redlockd: maintainer-script-calls-systemctl
EOF
for example in redis.conf alerts.yaml grafana.json; do
  put 644 "$docker/helm/$example" "usr/share/doc/redlockd/examples/$example"
done

mkdir "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<EOF
Package: redlockd
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$tree" | cut -f1)
Section: database
Priority: optional
Depends: systemd | systemd-standalone-sysusers | systemd-sysusers
Suggests: redis-server, redis-tools
Description: distributed locks over the Redis protocol
 redlockd grants locks on a majority of independent Redis masters (Redlock), to
 any Redis client and to most lock libraries for one Redis.
 .
 The package does not start it: name the masters in /etc/redlockd/config.toml,
 then run systemctl enable --now redlockd.
EOF
echo /etc/redlockd/config.toml >"$tree/DEBIAN/conffiles"
# As dh_installsysusers does it, the user stays when the package goes: files may belong to it. A server that does not run is not started.
put 755 "$docker/package/postinst" DEBIAN/postinst
cat >"$tree/DEBIAN/prerm" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now redlockd.service
fi
EOF
cat >"$tree/DEBIAN/postrm" <<'EOF'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
EOF
chmod 755 "$tree/DEBIAN/prerm" "$tree/DEBIAN/postrm"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" --build "$tree" "$out" >/dev/null
