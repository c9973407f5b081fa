#!/usr/bin/env bash
# Builds the programs of TestLibraries into build/, which git ignores, and installs what that takes.
#
#   build.sh            build what is missing or older than its sources
#   build.sh --check    only say what that would be; fails if there is anything
#
# A language is built when the sum over its source files and over the versions of its tools differs from the one in its stamp.
set -euo pipefail
cd "$(dirname "$0")"

languages=(go node python)

fail() {
  echo "libraries: $*" >&2
  exit 1
}

# tools prints what a language needs; packages prints the Debian packages that have it.
tools() {
  case $1 in
    go) echo go ;;
    node) echo node npm ;;
    python) echo python3 ;;
  esac
}

packages() {
  case $1 in
    go) ;;
    node) echo nodejs npm ;;
    python) echo python3 python3-venv ;;
  esac
}

missing_tools() {
  local tool
  for tool in $(tools "$1"); do command -v "$tool" >/dev/null || echo "$tool"; done
}

sum() {
  { cat build.sh; find "$1" -type f -print0 | sort -z | xargs -0 sha256sum; } | sha256sum | cut -d' ' -f1
}

up_to_date() {
  [ -z "$(missing_tools "$1")" ] && [ "$(cat "build/$1/stamp" 2>/dev/null)" = "$(sum "$1")" ]
}

build_go() {
  (cd go && go build -mod=readonly -o ../build/go/locks .)
}

build_node() {
  cp node/* build/node/
  (cd build/node && npm ci --silent --no-audit --no-fund)
}

# One environment for each version of redis-py.
build_python() {
  local name
  for name in current redis4; do
    python3 -m venv "build/python/$name"
    "build/python/$name/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "python/requirements-$name.txt"
  done
}

stale=()
for language in "${languages[@]}"; do up_to_date "$language" || stale+=("$language"); done

if [ "${1-}" = --check ]; then
  for language in "${stale[@]}"; do
    lacking=$(missing_tools "$language" | paste -sd' ')
    if [ -n "$lacking" ]; then echo "$language: not installed: $lacking"; else echo "$language: not built from its present sources"; fi
  done
  [ ${#stale[@]} = 0 ]
  exit
fi

install=()
for language in "${stale[@]}"; do
  [ -z "$(missing_tools "$language")" ] || read -ra install <<<"${install[*]-} $(packages "$language")"
done
if [ ${#install[@]} != 0 ]; then
  command -v apt-get >/dev/null || fail "install by hand, then run make libraries again: ${install[*]}"
  echo "libraries: installing ${install[*]}"
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${install[@]}" >/dev/null
fi

for language in "${stale[@]}"; do
  lacking=$(missing_tools "$language" | paste -sd' ')
  [ -z "$lacking" ] || fail "$language needs $lacking: install it, then run make libraries again"
  echo "libraries: building the programs in $language"
  rm -rf "build/$language"
  mkdir -p "build/$language"
  "build_$language"
  sum "$language" >"build/$language/stamp"
done
