#!/usr/bin/env bash
# debian.sh OUT.tar [package...] makes the root file system of a small Debian, of the release and with the mirror of this machine, into OUT.tar, once:
# the tests of the image and of the package run in it. Needs root and debootstrap.
set -euo pipefail
export LC_ALL=C

fail() {
  echo "debian.sh: $*" >&2
  exit 1
}

[ $# -ge 1 ] || fail "want: debian.sh OUT.tar [package...]"
[ "$(id -u)" = 0 ] || fail "making a Debian needs root: run it with sudo"
command -v debootstrap >/dev/null || fail "there is no debootstrap: apt-get install debootstrap"

out=$1
shift
release=$(. /etc/os-release && [ "${ID-}" = debian ] && echo "$VERSION_CODENAME") || fail "this machine does not run Debian"
want="$release $*"
if [ -f "$out" ] && [ "$(cat "$out.made" 2>/dev/null)" = "$want" ]; then
  exit
fi

mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' | awk -v release="$release" '$2 == release { print $1; exit }')
[ -n "$mirror" ] || fail "apt knows no mirror of $release: look at /etc/apt/sources.list.d"

mkdir -p "$(dirname "$out")/packages"
packages=$(cd "$(dirname "$out")/packages" && pwd)
root=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$root.tar"' EXIT
debootstrap --variant=minbase --cache-dir="$packages" --include="$(IFS=, && echo "$*")" "$release" "$root" "$mirror" >"$out.log" 2>&1 || {
  tail -20 "$out.log" >&2
  fail "debootstrap failed: $out.log"
}
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
chmod 755 "$root"
tar -C "$root" --one-file-system -cf "$root.tar" .
rm -f "$out.made" # whoever is interrupted here makes it again
mv "$root.tar" "$out"
echo "$want" >"$out.made"
