#!/usr/bin/env bash
# Finds or builds the programs of another version, and has run.sh try them beside those in BIN: peer.sh BIN PEER. PEER is a directory of
# programs, or a tag or commit, which is built once, into a folder of its own below the target folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
peer=${2-}

skip() { echo "SKIPPED: versions: $*"; exit 0; }
[ -n "$peer" ] || skip "no tag in this clone (git fetch --tags), and no PEER="
if [ ! -d "$peer" ]; then
    commit=$(git -C "$here" rev-parse --quiet --verify "$peer^{commit}") || skip "$peer is neither a directory nor in this clone (git fetch --tags)"
    folder=$(dirname "$bin")/versions/$commit
    if [ ! -x "$folder/target/debug/cudawrap" ]; then
        rm -rf "$folder"
        mkdir -p "$folder/sources"
        git -C "$here/../.." archive "$commit" | tar -x -C "$folder/sources"
        (cd "$folder/sources" && CARGO_TARGET_DIR=$folder/target cargo build --quiet --locked -p getgpu -p cudawrap)
    fi
    echo "versions: $peer is $commit"
    peer=$folder/target/debug
fi
exec "$here/run.sh" "$bin" "$peer"
