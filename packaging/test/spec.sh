#!/usr/bin/env bash
# Two rpms by packaging/rpm/getgpu.spec of programs that are built already: one to install and one to upgrade to.
# spec.sh DIRECTORY-OF-PROGRAMS OUTPUT: writes OUTPUT/0.1.0.rpm and OUTPUT/9.9.9.rpm, and nothing into the checkout.
set -euo pipefail

[ $# = 2 ] || { echo "usage: spec.sh DIRECTORY-OF-PROGRAMS OUTPUT" >&2; exit 2; }
programs=$(cd "$1" && pwd)
output=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-spec.XXXXXX")
trap 'rm -rf "$room"' EXIT

# Debian's rpm runs these by dash, in which they fail without a word; Fedora's /bin/sh is bash.
finish='bash /usr/lib/rpm/brp-compress /usr; bash /usr/lib/rpm/brp-strip /usr/bin/strip'

for version in 0.1.0 9.9.9; do
    sed "s/^\(Version: *\).*/\1$version/; s/- 0\.1\.0-1$/- $version-1/" packaging/rpm/getgpu.spec >"$room/getgpu.spec"
    # What it requires of the building machine may come from elsewhere than rpms; who packages it is up to the site.
    rpmbuild -bb --build-in-place --nodeps --quiet --define "_topdir $room" --define "programs $programs" \
        --define "__os_install_post $finish" --define '_binary_payload w1.gzdio' \
        --define 'packager getgpu maintainers <getgpu@packages.invalid>' "$room/getgpu.spec"
    cp "$room"/RPMS/*/getgpu-"$version"-1*.rpm "$output/$version.rpm"
done
