#!/bin/sh
# Fetches NVIDIA's own libnvidia-ml.so.1, or another library (Debian non-free), into DIR and prints its path; nothing is installed.
# Usage: real-library.sh DIR [PACKAGE LIBRARY]. Status 77 with a line if it cannot be had. Without a driver its nvmlInit fails with 9.
set -eu

skip() {
    echo "SKIPPED: $1"
    exit 77
}

[ $# -eq 1 ] || [ $# -eq 3 ] || { echo "usage: real-library.sh DIR [PACKAGE LIBRARY]" >&2; exit 2; }
package=${2:-libnvidia-ml1} name=${3:-libnvidia-ml.so.1}
mkdir -p "$1"
dir=$(cd "$1" && pwd)
command -v apt-get >/dev/null || skip "no apt-get"
command -v dpkg-deb >/dev/null || skip "no dpkg-deb"

suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-}") || skip "not Debian"
[ -n "$suite" ] || skip "no Debian release name"
mirror=$("$(dirname "$0")/../../debian-mirror.sh") || skip "no Debian mirror in the sources of apt"

# Everything apt writes goes to DIR, so that the machine's own lists and sources stay as they are.
mkdir -p "$dir/apt/state/lists/partial" "$dir/apt/cache/archives/partial" "$dir/root"
touch "$dir/apt/status"
cat >"$dir/apt/sources.list" <<END
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main contrib non-free
END
apt() {
    apt-get -q -o Dir::State="$dir/apt/state" -o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" \
        -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o APT::Sandbox::User=root "$@" >"$dir/apt/log" 2>&1
}
apt update || skip "apt-get update: $(tail -n 1 "$dir/apt/log")"
(cd "$dir" && apt download "$package") || skip "apt-get download $package: $(tail -n 1 "$dir/apt/log")"
dpkg-deb -x "$(ls -t "$dir/$package"_*.deb | head -n 1)" "$dir/root"
library=$(find "$dir/root" -name "$name" | head -n 1)
[ -n "$library" ] || skip "$package holds no $name"
echo "$library"
