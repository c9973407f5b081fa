#!/usr/bin/env bash
# Builds the programs of TestLibraries into build/, which git ignores, and installs what that takes.
#
#   build.sh [language...]            build what is missing or older than its sources; no language: all of them
#   build.sh --check [language...]    only say what that would be; fails if there is anything
#
# A language is built when the sum over its source files and its build function differs from the one in its stamp.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")"

languages=(go node python java rust php ruby perl c)

fail() {
  echo "libraries: $*" >&2
  exit 1
}

check=
if [ "${1-}" = --check ]; then
  check=yes
  shift
fi
for language; do
  [[ " ${languages[*]} " == *" $language "* ]] || fail "no language $language: want some of ${languages[*]}"
done
[ $# = 0 ] || languages=("$@")

# missing prints what a language lacks on this machine, packages the packages of Debian that have it.
missing() {
  case $1 in
    go) commands go ;;
    node) commands node npm ;;
    python) commands python3 && python3 -c 'import ensurepip, venv' 2>/dev/null || echo "the venv module of python3" ;;
    java) commands java javac mvn ;;
    rust) commands cargo gcc && recent_cargo || echo "cargo $CARGO_MIN or newer" ;;
    php) commands php && { php -r 'exit(extension_loaded("redis") ? 0 : 1);' || echo "the redis extension of php"; } &&
      { php -r '@include "Symfony/Component/Lock/autoload.php"; exit(class_exists("Symfony\Component\Lock\LockFactory") ? 0 : 1);' || echo "the Lock component of Symfony"; } &&
      { php -r '@include "Predis/autoload.php"; exit(class_exists("Predis\Client") ? 0 : 1);' || echo "Predis"; } &&
      { php -r '@include "Illuminate/Redis/autoload.php"; @include "Illuminate/Cache/autoload.php"; exit(class_exists("Illuminate\Cache\RedisLock") && class_exists("Illuminate\Redis\RedisManager") ? 0 : 1);' || echo "the cache of Laravel"; } ;;
    ruby) commands ruby && ruby -e 'require "redis"' 2>/dev/null || echo "the redis gem of ruby" ;;
    perl) commands perl && perl -MRedis -e 1 2>/dev/null || echo "the Redis module of perl" ;;
    c) commands gcc && echo '#include <hiredis/hiredis.h>' | gcc -E - >/dev/null 2>&1 || echo "the headers of hiredis" ;;
  esac
  return 0
}

commands() {
  local name lacking=0
  for name; do command -v "$name" >/dev/null || { echo "$name"; lacking=1; }; done
  return $lacking
}

# What the pinned libraries ask for.
CARGO_MIN=1.88
NODE_MIN=20

recent_cargo() {
  printf '%s\n' "$CARGO_MIN" "$(cargo --version 2>/dev/null | cut -d' ' -f2)" | sort -VC
}

packages() {
  case $1 in
    node) echo nodejs npm ;;
    python) echo python3 python3-venv ;;
    java) echo default-jdk-headless maven ;;
    # Debian's cargo is older than that; the one it builds browsers with is not.
    rust) local name
      for name in cargo-web rustup cargo; do apt-cache show "$name" >/dev/null 2>&1 && break; done
      echo "$name" gcc libc6-dev ;;
    php) echo php-cli php-redis php-symfony-lock php-predis php-illuminate-cache php-illuminate-redis ;;
    ruby) echo ruby ruby-redis ;;
    perl) echo perl libredis-perl ;;
    c) echo gcc libc6-dev libhiredis-dev ;;
  esac
}

# sum changes when the sources of a language do, or the way they are built.
sum() {
  { declare -f "build_$1"; find "$1" -type f -print0 | sort -z | xargs -0 sha256sum; } | sha256sum | cut -d' ' -f1
}

up_to_date() {
  [ "$(cat "build/$1/stamp" 2>/dev/null)" = "$(sum "$1")" ] && [ -z "$(missing "$1")" ]
}

build_go() {
  (cd go && go build -mod=readonly -o ../build/go/locks .)
}

# Where the system's node is too old, the registry of npm has a newer one.
build_node() {
  cp -R node/. build/node/
  (
    cd build/node
    npm ci --silent --no-audit --no-fund
    node=$(command -v node)
    if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt $NODE_MIN ]; then
      package=node-linux-$(node -p process.arch)
      npm install --silent --no-audit --no-fund --prefix runtime --no-save "$package@22"
      node=$PWD/runtime/node_modules/$package/bin/node
    fi
    ln -s "$node" node
  )
}

# One environment for each version of redis-py.
build_python() {
  local name
  for name in current redis4; do
    python3 -m venv "build/python/$name"
    "build/python/$name/bin/python" -m pip install --use-pep517 --quiet --disable-pip-version-check --require-hashes -r "python/requirements-$name.txt"
  done
  build/python/current/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r python/requirements-apart.txt
}

build_java() {
  local pom
  for pom in pom redisson3; do
    mvn --quiet --batch-mode -Dstyle.color=never --file "java/$pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
      -DoutputDirectory="$PWD/build/java/$pom" -DincludeScope=runtime
  done
  mv build/java/pom build/java/lib
  javac -proc:none -d build/java/classes -cp 'build/java/lib/*' java/*.java
}

build_rust() {
  cargo build --quiet --locked --manifest-path rust/Cargo.toml --target-dir build/rust
}

build_c() {
  gcc -O1 -Wall -Wextra -o build/c/main c/main.c -lhiredis
}

# Their sources are run as they are.
build_php() { :; }
build_ruby() { :; }
build_perl() { :; }

stale=()
for language in "${languages[@]}"; do up_to_date "$language" || stale+=("$language"); done

if [ -n "$check" ]; then
  for language in "${stale[@]}"; do
    lacking=$(missing "$language" | paste -sd, -)
    if [ -n "$lacking" ]; then echo "$language: not installed: $lacking"; else echo "$language: not built from its present sources"; fi
  done
  [ ${#stale[@]} = 0 ]
  exit
fi

lacking=()
for language in "${stale[@]}"; do [ -z "$(missing "$language")" ] || lacking+=("$language"); done
if [ ${#lacking[@]} != 0 ]; then
  command -v apt-get >/dev/null || fail "$(for language in "${lacking[@]}"; do missing "$language"; done | paste -sd, -): install this, then run make libraries again"
  read -ra wanted <<<"$(for language in "${lacking[@]}"; do packages "$language"; done | paste -sd' ' -)"
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  [ -z "$sudo" ] || command -v sudo >/dev/null || fail "there is no sudo here. As root, type: apt-get update && apt-get install -y --no-install-recommends ${wanted[*]}"
  $sudo apt-get update -qq
  echo "libraries: installing ${wanted[*]}"
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
  if command -v rustup >/dev/null && ! recent_cargo; then rustup toolchain install --profile minimal stable; fi
fi

build() {
  local lacking
  lacking=$(missing "$1" | paste -sd, -)
  [ -z "$lacking" ] || fail "$1 needs $lacking: install it, then run make libraries again"
  rm -rf "build/$1"
  mkdir -p "build/$1"
  "build_$1"
  sum "$1" >"build/$1/stamp"
}

# All at once: most of the time goes by in waiting for packages. What a build says is shown if it fails.
mkdir -p build
declare -A running
for language in "${stale[@]}"; do
  echo "libraries: building the programs in $language"
  build "$language" >"build/$language.log" 2>&1 &
  running[$language]=$!
done
failed=
for language in "${!running[@]}"; do
  wait "${running[$language]}" || { failed+=" $language" && sed "s/^/$language: /" "build/$language.log" >&2; }
done
[ -z "$failed" ] || fail "not built:$failed"
