#!/usr/bin/env bash
# Runs the unit tests of the pure modules, and of the parsers of raw memory, under Miri. What makes system calls that Miri does not know is
# left out by name, and what takes minutes there. Without a nightly compiler that has miri and rust-src it says SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "SKIPPED: a nightly compiler with miri is not installed (rustup toolchain install nightly --component miri,rust-src)"
    exit 0
fi
# Miri is a hundred times slower than the processor: random input (`properties`) is for `make properties` and `make fuzz`.
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"
miri() {
    cargo +nightly miri test --locked --target-dir target/miri "$@"
}
of() {
    miri -p "getgpu-$1" --lib -- "${@:2}" --skip properties::
}
of linux byte_range:: procfs::stat:: procfs::fdinfo:: --skip a_stat_is_read_whatever_the_name
of model ident:: visible:: quantity:: share:: units:: cpus::set:: batch:: nearest:: \
    --skip others_are_known_by_the_slurmstepd_above_them --skip words_and_numbers --skip exactly_k_shares_of_one_kth_fit
of lock layout:: holder_args::
of settings value_codec:: value_types::
of ask nvml_client::wire:: --skip what_is_cut_short_or_damaged_is_an_error_or_another_answer
of queue retry_schedule::
# What the library writes into our memory.
miri -p getgpu-nvml --lib -- processes:: raw:: judge:: fault::
# Not create-cudawrap: under Miri rustix takes its other backend, whose times are of another type.
