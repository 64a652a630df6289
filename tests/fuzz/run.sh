#!/usr/bin/env bash
# Runs each fuzz target for some seconds, or those that are named: run.sh SECONDS [TARGET...]. The seeds in corpus/ are kept by hand; what the
# fuzzer finds besides goes to target/fuzz-corpus. FUZZ_SANITIZER=none builds in two thirds of the time. Without a nightly compiler or
# cargo-fuzz it says SKIPPED. A finding ends it with status 1 and leaves its input in tests/fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:?usage: run.sh SECONDS [TARGET...]}
shift
export PATH=$PATH:$PWD/target/tools/bin
for what in "cargo +nightly --version" "cargo fuzz --version"; do
    if ! $what >/dev/null 2>&1; then
        echo "SKIPPED: fuzzing needs a nightly compiler and cargo-fuzz: \`$what\` does not run here"
        exit 0
    fi
done
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cargo +nightly fuzz list --fuzz-dir tests/fuzz)
fi
for target in "${targets[@]}"; do
    mkdir -p "target/fuzz-corpus/$target"
    log=target/fuzz-corpus/$target.log
    if ! cargo +nightly fuzz run --sanitizer "${FUZZ_SANITIZER:-address}" --fuzz-dir tests/fuzz --target-dir target/fuzz \
        "$target" "target/fuzz-corpus/$target" "tests/fuzz/corpus/$target" -- -max_total_time="$seconds" -timeout=10 -print_final_stats=1 >"$log" 2>&1; then
        tail -n 30 "$log"
        echo "fuzz $target: found something, see above and $log"
        exit 1
    fi
    printf 'fuzz %s: %s cases, none failed\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
done
