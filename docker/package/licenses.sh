#!/usr/bin/env bash
# Prints the licences of redlockd and of all that is linked into it, in Debian's machine-readable format. The modules are those that the Go
# toolchain has noted in the binary. A licence that this does not know is an error, so that somebody reads it before it is shipped.
#
#   licenses.sh BINARY
#
# Rejected: go-licenses of Google. It reads the sources for what may be linked, leaves out the standard library, and is a hundred modules.
set -euo pipefail
[ $# = 1 ] || { echo "usage: licenses.sh BINARY" >&2; exit 2; }
binary=$1 root=$(cd "$(dirname "$0")/../.." && pwd)

# identify prints the SPDX identifier of the licence in a file.
identify() {
  case $(tr -s '[:space:]' ' ' <"$1") in
    *'Apache License Version 2.0'*) echo Apache-2.0 ;;
    *'Permission is hereby granted, free of charge, to any person'*) echo MIT ;;
    *'Redistribution and use in source and binary forms'*'Neither the name'*) echo BSD-3-Clause ;;
    *'Redistribution and use in source and binary forms'*) echo BSD-2-Clause ;;
    *) echo "licenses.sh: $1 is a licence that this script does not know: read it, and add it to identify" >&2; exit 1 ;;
  esac
}

# field prints a text as a field of several lines goes on.
field() { sed 's/[[:space:]]*$//; s/^$/./; s/^/ /'; }

# stanza prints what the licence in the second file says of the first, a pattern.
stanza() {
  local files=$1 licence=$2 notice id
  notice=$(dirname "$licence")/NOTICE id=$(identify "$licence")
  [ -e "$notice" ] || notice=
  echo
  echo "Files: $files"
  echo "Copyright:" "$(grep -hiE '^[^a-z]*copyright.*[0-9]{4}' "$licence" $notice | field | sed '1s/^ *//' || echo "the authors of ${files%/\*}")"
  echo "License: $id"
  if [ "$id" = Apache-2.0 ]; then
    apache=$licence # one text for all, at the end
  else
    field <"$licence"
  fi
  [ -z "$notice" ] || { echo "Comment:"; field <"$notice"; }
}

echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
echo "Upstream-Name: redlockd"
echo "Comment: These Go modules are in the program, each named by the path of its files. std is the standard library."
apache=
stanza '*' "$root/LICENSE"
stanza 'std/*' "$(go env GOROOT)/LICENSE"
modules=$(go version -m "$binary" | awk '$1 == "dep" { if (m) print m; m = $2 "@" $3 } $1 == "=>" { m = $2 "@" $3 } END { if (m) print m }')
for module in $modules; do
  dir=$(go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
  licences=$(find "$dir" -maxdepth 1 -type f \( -iname 'LICEN[CS]E*' -o -iname 'COPYING*' \) | sort)
  [ -n "$licences" ] || { echo "licenses.sh: $module has no licence: its file has a name that this script does not know" >&2; exit 1; }
  # What a module has copied from elsewhere is internal.
  [ ! -d "$dir/internal" ] || licences+=" $(find "$dir/internal" -type f \( -iname 'LICEN[CS]E*' -o -iname 'COPYING*' \) | sort)"
  for licence in $licences; do
    inside=${licence#"$dir"/} files=${module%@*}
    case $inside in */*) files+=/${inside%/*} ;; esac
    stanza "$files/*" "$licence"
  done
done
[ -z "$apache" ] || { echo; echo "License: Apache-2.0"; field <"$apache"; }
