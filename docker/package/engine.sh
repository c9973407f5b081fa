#!/usr/bin/env bash
# engine.sh COMMAND... runs a command beside a docker engine of its own, which has the images that Dockerfile and compose.yaml name, made of this machine's
# Debian and Go, because a test downloads no images. Needs root, and the packages that `make test-docker` installs.
#
# Engine, containers and command run in namespaces of their own, of processes, network and mounts: when the command ends, or this script however it ends, the
# kernel ends all of them, and their networks and mounts are gone. The command finds the engine by DOCKER_HOST, published ports at 127.0.0.1, and the
# containers by their addresses; a network out it has none.
set -euo pipefail
export LC_ALL=C
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$top/cmd/redlockd/testdata/debian/build

fail() {
  echo "engine.sh: $*" >&2
  exit 1
}

# prepare makes what needs the network: once. $1 is a folder for what is on the way.
prepare() {
  local compose=v2.40.3 tmp=$1
  mkdir "$tmp"
  "$top/docker/package/debian.sh" "$build/debian.tar" ca-certificates redis-server
  # The Go modules of redlockd, as a proxy in files.
  (cd "$top" && GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" GOFLAGS=-modcacherw GOMODCACHE=$tmp go mod download)
  rm -rf "$build/modules"
  mv "$tmp/cache/download" "$build/modules"
  # Compose v2 is no package of Debian 12.
  if [ ! -x "$build/compose-$compose" ]; then
    mkdir "$tmp/compose" # a module with its own replacements cannot be installed by name
    cp -r --no-preserve=mode "$(go mod download -json "github.com/docker/compose/v2@$compose" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')/." "$tmp/compose"
    (cd "$tmp/compose" && go build -trimpath -ldflags "-s -w -X github.com/docker/compose/v2/internal.Version=$compose" -o "$build/compose-$compose.new" ./cmd)
    mv "$build/compose-$compose.new" "$build/compose-$compose"
  fi
  ln -sfn "compose-$compose" "$build/compose"
}

# import makes an image of the Debian in $1, under the name $2 and with the settings after it.
import() {
  local tar=$1 name=$2 settings=()
  shift 2
  for setting; do settings+=(--change "$setting"); done
  docker import "${settings[@]}" "$tar" "$name" >/dev/null
}

# inside runs in the namespaces, as their process 1.
inside() {
  local state=$1
  shift
  ip link set lo up
  export DOCKER_HOST=unix://$state/socket DOCKER_CONFIG=$state/config PATH=/usr/bin:/usr/sbin:$PATH # the client of Debian's package fits its engine
  mkdir -p "$state/config/cli-plugins"
  ln -s "$build/compose" "$state/config/cli-plugins/docker-compose"
  dockerd -H "$DOCKER_HOST" --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/pid" --iptables=false --ip6tables=false \
    --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/${state##*/}" >"$build/dockerd.log" 2>&1 &
  for _ in $(seq 300); do
    docker info >/dev/null 2>&1 && break
    kill -0 $! 2>/dev/null || fail "dockerd has ended: $build/dockerd.log"
    sleep 0.1
  done
  import "$build/debian.tar" redis:7.2 'CMD ["redis-server"]'
  cp "$build/debian.tar" "$state/golang.tar"
  tar -C "$(go env GOROOT)" --transform 's,^\.,./usr/local/go,S' --exclude ./test -rf "$state/golang.tar" .
  tar -C "$build/modules" --transform 's,^\.,./modules,S' -rf "$state/golang.tar" .
  import "$state/golang.tar" golang:1.26 'ENV PATH=/usr/local/go/bin:/usr/bin:/bin GOPATH=/go GOTOOLCHAIN=local GOPROXY=file:///modules GOSUMDB=off'
  rm "$state/golang.tar"
  "$@"
}

if [ "${1-}" = --inside ]; then
  inside "${@:2}"
  exit
fi
[ $# -ge 1 ] || fail "want: engine.sh COMMAND..."
[ "$(id -u)" = 0 ] || fail "a docker engine needs root: run it with sudo"
mkdir -p "$build"
state=$(mktemp -d -t engine.XXXXXX)
trap 'rm -rf --one-file-system "$state"; find /sys/fs/cgroup -depth -type d -path "*/${state##*/}*" -exec rmdir {} + || true' EXIT
prepare "$state/prepare"
setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --mount-proc -- "$0" --inside "$state" "$@" &
namespaces=$!
trap 'kill -KILL $namespaces; wait $namespaces || true; exit 130' INT TERM HUP # unshare itself ignores the first two
wait $namespaces
