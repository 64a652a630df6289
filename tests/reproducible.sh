#!/usr/bin/env bash
# Builds HEAD twice by `make portable`, in two directories with two homes of cargo, and compares the programs byte by byte. About three
# minutes of a processor for each build; the same compiler and zig give the same sums elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo-zigbuild >/dev/null || { echo "SKIPPED: reproducible: no cargo-zigbuild here"; exit 0; }
room=$(mktemp -d "${TMPDIR:-/tmp}/reproducible.XXXXXX")
trap 'rm -rf "$room"' EXIT
places=(one "another place")
for place in "${places[@]}"; do
    git clone --quiet . "$room/$place"
done
for place in "${places[@]}"; do
    mkdir "$room/$place.home"
    # Only what a registry gave, and where it is.
    for part in registry config.toml; do
        [ ! -e "${CARGO_HOME:-$HOME/.cargo}/$part" ] || cp -a "${CARGO_HOME:-$HOME/.cargo}/$part" "$room/$place.home/"
    done
    CARGO_HOME="$room/$place.home" CARGO_TARGET_DIR="$room/$place/target" make -C "$room/$place" --silent portable
    (cd "$room/$place/target/"*/release && sha256sum getgpu cudawrap create-cudawrap libcudawrap.so) >"$room/$place.sums"
done
cat "$room/one.sums"
cmp "$room/one.sums" "$room/another place.sums"
echo "reproducible: two builds in two directories are the same"
