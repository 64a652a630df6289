#!/usr/bin/env bash
# The workspace for aarch64 on a machine of another processor, built with Debian's cross compiler: which system calls qemu-user lacks, the unit
# tests of the crates of common there, then the demo and tests of themes on an emulated machine: run.sh TARGET. `run.sh TARGET build` only builds.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$1

triple=aarch64-unknown-linux-gnu
skip() { echo "SKIPPED: aarch64: $*"; exit 0; }
command -v aarch64-linux-gnu-gcc >/dev/null || skip "no cross compiler here (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)"
[ -d "$(rustc --print sysroot)/lib/rustlib/$triple" ] || skip "no standard library for it here (rustup target add $triple)"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CARGO_PROFILE_DEV_DEBUG=false
if [ "${2-}" = build ]; then
    cargo check --quiet --locked --workspace --all-targets --target "$triple"
    cargo build --quiet --locked --target "$triple" -p getgpu -p cudawrap -p libcudawrap -p create-cudawrap
    echo "aarch64: all compiles, and the programs are linked"
    exit 0
fi

command -v qemu-aarch64 >/dev/null || skip "no qemu-aarch64 here (Debian: qemu-user)"
# Emulated processors are slow.
export CARGO_PROFILE_DEV_OPT_LEVEL=1
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64 QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
room=$(mktemp -d "${TMPDIR:-/tmp}/aarch64.XXXXXX")
trap 'rm -rf "$room"' EXIT
aarch64-linux-gnu-gcc -o "$room/calls" tests/aarch64/calls.c
echo "aarch64: what qemu-user leaves out of the system calls that the programs make:"
qemu-aarch64 "$room/calls"

# The tests that qemu-user cannot pass, and why.
left_out() {
    echo "aarch64: left out under qemu-user: $1: $2"
    options+=(--skip "$1")
}
options=(--test-threads 4)
left_out the_tag_of_a_process_is_in_its_environment "vfork(2) returns before the child has executed its program"
crates=()
for crate in common/*/Cargo.toml; do
    crates+=(-p "$(sed -n 's/^name = "\(.*\)"$/\1/p' "$crate" | head -n 1)")
done
cargo test --quiet --locked --no-fail-fast --target "$triple" "${crates[@]}" --lib -- "${options[@]}"
echo "aarch64: the unit tests of the crates of common have passed under qemu-user"

# cudawrap asks NVML through a child without an exit signal, which qemu-user does not know: so the rest runs on a kernel of that processor.
tests=(-p getgpu-tests --test leases --test device_choice --test error_injection)
cargo test --quiet --locked --target "$triple" --no-run "${tests[@]}"
cargo build --quiet --locked --workspace --target "$triple"
tests/aarch64/machine.sh "$target/$triple/debug" leases device_choice error_injection
