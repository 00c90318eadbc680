#!/bin/sh
# Installs Debian packages that weir needs: sh deploy/install.sh LIST...
# A LIST is a file of deploy/packages (build, run, test, full). Packages that are there are left alone, so a second run
# changes nothing and needs neither root nor network. Works on a bare system: root or sudo, no package lists, no locale.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

say() {
    echo "install: $*" >&2
}

fail() {
    say "$*"
    exit 1
}

# The names in a list: everything but comments and empty lines.
names() {
    [ -f "$here/packages/$1" ] || fail "no list \"$1\"; there are: $(ls "$here/packages" | tr '\n' ' ')"
    sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$here/packages/$1"
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# apt-get without questions, in English, waiting for another one that holds the lock.
apt() {
    $root env DEBIAN_FRONTEND=noninteractive LC_ALL=C \
        apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1
}

# One try: fresh lists, then all that is missing. Recommended packages (editors, documentation) stay away.
fetch_and_install() {
    # shellcheck disable=SC2086 # $missing is a list of words
    apt update && apt install -y --no-install-recommends $missing
}

[ $# -gt 0 ] || fail "usage: sh deploy/install.sh LIST...   (lists: $(ls "$here/packages" | tr '\n' ' '))"
wanted=
for list in "$@"; do
    words=$(names "$list") || exit 1 # a pipe here would hide the failure
    wanted="$wanted $(echo $words)"
done
command -v apt-get >/dev/null 2>&1 ||
    fail "no apt-get here: these scripts know Debian 12. Install what these packages hold:$wanted"

missing=
for package in $wanted; do
    is_installed "$package" || missing="$missing $package"
done
if [ -z "$missing" ]; then
    say "all packages of $* are there"
    exit 0
fi

root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 ||
        fail "packages are missing, and this user is neither root nor has sudo. As root: apt-get install$missing"
    root=sudo
fi
log=$(mktemp "${TMPDIR:-/tmp}/weir-install.XXXXXX")
say "installing$missing (log: $log)"
if ! fetch_and_install; then
    say "failed; once more, the network may have been at fault"
    if ! fetch_and_install; then
        tail -n 15 "$log" >&2
        fail "apt-get failed twice; the whole log is $log"
    fi
fi
rm -f "$log"
say "done"
