#!/usr/bin/env bash
# Runs the unit tests of the pure modules, and of the parsers of raw memory, under Miri. What makes system calls that Miri does not know is
# left out by name, and what takes minutes there. Without a nightly compiler that has miri and rust-src it says SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "SKIPPED: a nightly compiler with miri is not installed (rustup toolchain install nightly --component miri,rust-src)"
    exit 0
fi
# Proptest writes and reads its file of failures, and Miri is a hundred times slower than the processor.
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}" PROPTEST_CASES="${PROPTEST_CASES:-2}"
miri() {
    cargo +nightly miri test --locked --target-dir target/miri "$@"
}
pure=(ident:: visible:: quantity:: share:: byte_range:: cpus::set:: batch:: job:: nearest:: lock::units:: lock::layout:: lock::holder_args::
    procfs::stat:: procfs::fdinfo:: procfs::properties:: nvml_client::wire:: settings::value queue::retry_schedule::)
miri -p getgpu-common --lib -- "${pure[@]}" --skip a_stat_is_read_whatever_the_name --skip others_are_known_by_the_slurmstepd_above_them \
    --skip what_is_cut_short_or_damaged_is_an_error_or_another_answer
# What the library writes into our memory.
miri -p getgpu-nvml --lib -- processes:: raw:: judge:: fault::
# Not create-cudawrap: under Miri rustix takes its other backend, whose times are of another type.
