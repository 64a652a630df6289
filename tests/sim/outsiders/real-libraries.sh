#!/bin/sh
# Fetches NVIDIA's own libnvidia-ml.so.1 and libcuda.so.1 into DIR/VERSION, the newest of each driver branch from 450 on that Debian's non-free
# has in this machine's release, the stable one, unstable and experimental. Nothing is installed; what DIR has already is not fetched again.
# Usage: real-libraries.sh DIR. Prints a version a line. Status 77 with a line if none can be had. Without a driver their first call fails.
set -eu

skip() {
    echo "SKIPPED: $1"
    exit 77
}

[ $# -eq 1 ] || { echo "usage: real-libraries.sh DIR" >&2; exit 2; }
command -v apt-get >/dev/null || skip "no apt-get"
command -v dpkg-deb >/dev/null || skip "no dpkg-deb"
mirror=$("$(dirname "$0")/../../debian-mirror.sh") || skip "no Debian mirror in the sources of apt"
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
work=$(mktemp -d "$dir/.fetch.XXXXXX")
trap 'rm -rf "$work"; rmdir "$dir" 2>/dev/null || true' EXIT

# Everything apt writes goes to $work, so that the machine's own lists and sources stay as they are.
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
touch "$work/status"
for name in "$suite" stable unstable experimental; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $name non-free"
done >"$work/sources.list"
apt() {
    program=$1
    shift
    "$program" -q -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
        -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root "$@" 2>>"$work/log"
}
# One release without a list, or with a key that this machine does not know, leaves the others.
apt apt-get update >>"$work/log" || true
apt apt-cache search --names-only '^libnvidia(-tesla(-[0-9]+)?)?-ml1$' >"$work/found" || true
packages=$(cut -d ' ' -f 1 <"$work/found")
[ -n "$packages" ] || skip "no libnvidia-ml1 in the lists of $mirror"

# "VERSION PACKAGE", oldest first; an epoch is none of NVIDIA's.
# shellcheck disable=SC2086
apt apt-cache madison $packages | awk -F ' *[|] *' '{ gsub(/ /, "", $1); print $2, $1 }' | sort -V -u >"$work/versions"

# A library of a package, by its name, at its place in DIR.
library() {
    mkdir "$work/package"
    (cd "$work/package" && apt apt-get download "$1" >>"$work/log" && dpkg-deb -x ./*.deb .) || { rm -rf "$work/package"; return 1; }
    found=$(find "$work/package" -name "$2.[0-9]*" -type f | head -n 1)
    number=${found##*.so.}
    mkdir -p "$work/$number"
    [ -z "$found" ] || mv "$found" "$work/$number/$2.1"
    rm -rf "$work/package"
    [ -n "$found" ]
}

cut -d . -f 1 "$work/versions" | sort -n -u | while read -r branch; do
    [ "$branch" -ge 450 ] || continue
    grep "^${branch}[.]" "$work/versions" | sort -V -r | while read -r version package; do
        number=${version%%-*}
        [ ! -e "$dir/$number" ] || break
        cuda=$(echo "$package" | sed 's/-ml1$/-cuda1/; s/^libnvidia-cuda1$/libcuda1/')
        library "$package=$version" libnvidia-ml.so && library "$cuda=$version" libcuda.so && mv "$work/$number" "$dir/$number" && break
        rm -rf "${work:?}/$number"
    done
done
versions=$(cd "$dir" && ls)
[ -n "$versions" ] || skip "no library can be fetched from $mirror: $(tail -n 1 "$work/log")"
echo "$versions"
