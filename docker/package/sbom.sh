#!/usr/bin/env bash
# Prints which modules are linked into a redlockd, as the Go toolchain has noted them in the binary, with their licences: a bill of
# materials in the JSON of CycloneDX 1.6. What the module requires for its tests alone is not in it.
#
#   sbom.sh BINARY VERSION
set -euo pipefail
[ $# = 2 ] || { echo "usage: sbom.sh BINARY VERSION" >&2; exit 2; }
# By the path of the module, and by those of what it has copied from elsewhere.
licences=$("$(dirname "$0")/licenses.sh" "$1" | jq -Rn 'reduce inputs as $line ({};
  if $line | startswith("Files: ") then .files = ($line[7:] | rtrimstr("*") | rtrimstr("/"))
  elif ($line | startswith("License: ")) and .files then .of[.files] = $line[9:] | .files = null
  else . end) | .of')
go version -m -json "$1" | jq --arg version "$2" --argjson licences "$licences" '
  def component($name; $version; $purl): {type: "library", "bom-ref": $purl, name: $name, version: $version, purl: $purl,
    licenses: ($licences | with_entries(select(.key == $name or (.key | startswith("\($name)/internal/")))) | [.[]] | unique
      | if length == 1 then [{license: {id: .[0]}}] else [{expression: join(" AND ")}] end)};
  "pkg:golang/redlockd@v\($version)" as $main
  | [component("std"; .GoVersion | ltrimstr("go"); "pkg:golang/std@" + (.GoVersion | ltrimstr("go"))),
     (.Deps[] | (.Replace // .) | component(.Path; .Version; "pkg:golang/\(.Path)@\(.Version)"))] as $modules
  | {
      bomFormat: "CycloneDX", specVersion: "1.6", version: 1,
      metadata: {component: {type: "application", "bom-ref": $main, name: "redlockd", version: $version, purl: $main, licenses: [{license: {id: $licences[""]}}]}},
      components: $modules,
      dependencies: [{ref: $main, dependsOn: [$modules[]["bom-ref"]]}]
    }'
