#!/usr/bin/env bash
# Prints which modules are linked into a redlockd, as the Go toolchain has noted them in the binary: a bill of materials in the JSON of
# CycloneDX 1.6. What the module requires for its tests alone is not in it.
#
#   sbom.sh BINARY VERSION
set -euo pipefail
[ $# = 2 ] || { echo "usage: sbom.sh BINARY VERSION" >&2; exit 2; }
go version -m -json "$1" | jq --arg version "$2" '
  def component($name; $version; $purl): {type: "library", "bom-ref": $purl, name: $name, version: $version, purl: $purl};
  "pkg:golang/redlockd@v\($version)" as $main
  | [component("std"; .GoVersion | ltrimstr("go"); "pkg:golang/std@" + (.GoVersion | ltrimstr("go"))),
     (.Deps[] | (.Replace // .) | component(.Path; .Version; "pkg:golang/\(.Path)@\(.Version)"))] as $modules
  | {
      bomFormat: "CycloneDX", specVersion: "1.6", version: 1,
      metadata: {component: {type: "application", "bom-ref": $main, name: "redlockd", version: $version, purl: $main}},
      components: $modules,
      dependencies: [{ref: $main, dependsOn: [$modules[]["bom-ref"]]}]
    }'
