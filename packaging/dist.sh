#!/usr/bin/env bash
# dist.sh OUTPUT: what a release publishes, from the commit that is checked out: the sources, the crates that they need (unpacked over the
# sources, they are built without a network), what the programs are made of (sbom.py), and the sums of these. The same commit gives the
# same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml) name=getgpu-$version
mkdir -p "$1"
output=$(cd "$1" && pwd)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

git archive --prefix="$name/" HEAD >"$room/sources.tar"
gzip -n9 <"$room/sources.tar" >"$output/$name.tar.gz"
# From the sources as they are published, whatever lies beside them here.
tar -xf "$room/sources.tar" -C "$room"
cd "$room/$name"
mkdir -p "$room/crates/$name/.cargo"
cargo vendor --quiet --locked --versioned-dirs "$room/crates/$name/vendor" >/dev/null
{
    cat .cargo/config.toml
    printf '\n[source.crates-io]\nreplace-with = "vendored-sources"\n\n[source.vendored-sources]\ndirectory = "vendor"\n'
} >"$room/crates/$name/.cargo/config.toml"
tar -C "$room/crates" --sort=name --mtime="@$(git -C "$OLDPWD" log -1 --format=%ct)" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$name" |
    gzip -n9 >"$output/$name-vendor.tar.gz"
packaging/sbom.py >"$output/$name.cdx.json"
cd "$output"
sha256sum "$name.tar.gz" "$name-vendor.tar.gz" "$name.cdx.json" | tee SHA256SUMS
