#!/bin/sh
# Prints the mirror of this machine's own Debian release, as its apt sources name it: what fetches something from Debian asks where the machine
# does. Status 1 if there is none.
set -eu
command -v apt-get >/dev/null || exit 1
grep -qx 'ID=debian' /etc/os-release || exit 1
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mirror=$(apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" 'Created-By: Packages' 2>/dev/null |
    awk -v release="$release" '$2 == release && $3 == "main" { print $1; exit }')
[ -n "$mirror" ] || exit 1
echo "$mirror"
