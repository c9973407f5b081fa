#!/usr/bin/env bash
# Builds what a release has into dist/: static binaries, packages for Debian, lists of the modules in them and their licences, and sums
# of all.
#
#   dist.sh [GOOS/GOARCH...]    default: linux and darwin on amd64 and arm64
#
# MAINTAINER stands in the packages (deb.sh). VERSION names the release. Without it, it is the tag of this commit, or says which commit it is.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

version=${VERSION:-$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null ||
  git log -1 --format='0.0.0-%cd.g%h' --date=format:%Y%m%d%H%M%S --abbrev=12)}
version=${version#v}
export CGO_ENABLED=0 SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
build() { go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$1" ./cmd/redlockd; }

rm -rf dist
mkdir dist
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
build "$here/redlockd" # runs here, and prints the manual page and the completions
for target; do
  name=redlockd-$version-${target%/*}-${target#*/}
  echo "$name"
  GOOS=${target%/*} GOARCH=${target#*/} build "dist/$name"
  if [ "${target%/*}" = linux ]; then
    REDLOCKD=$here/redlockd docker/package/deb.sh "dist/$name" "${target#*/}" "$version" "dist/redlockd_${version}_${target#*/}.deb"
  fi
  docker/package/licenses.sh "dist/$name" >"dist/$name.licenses.txt"
  docker/package/sbom.sh "dist/$name" "$version" >"dist/$name.cdx.json"
done
cd dist
sha256sum -- * >SHA256SUMS
