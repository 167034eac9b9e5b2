#!/usr/bin/env bash
# Unpack MariaDB's regression scripts and their client, of the version that is installed, from Debian's packages (about 32 MB, once).
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/auditor-tests
[ ! -x "$cache/mariadb-test/usr/bin/mariadb-test" ] || exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
  { echo "regression: cannot unpack MariaDB's regression scripts without apt-get and dpkg-deb; these tests are skipped" >&2; exit 0; }
mkdir -p "$cache"
dir=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$dir"' EXIT
packages=(mariadb-test mariadb-test-data libpcre2-posix3)
(cd "$dir" && { apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}" ||
  { apt-get update -qq && apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}"; }; }) >&2
for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
# Renamed last, so that an interrupted download leaves no incomplete directory under this name.
mv "$dir/root" "$cache/mariadb-test"
