#!/usr/bin/env bash
# The tests of libraries that hang, lie and write noise, with AddressSanitizer in our programs and in the simulated library: what the process
# that asks NVML reads and writes stays inside of its memory. The programs run as they are, with reports into files, since that process has no
# standard error. Without a nightly compiler it says SKIPPED. TORTURE=full: more noise.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
if ! cargo +nightly --version >/dev/null 2>&1 || ! command -v cc >/dev/null; then
    echo "SKIPPED: AddressSanitizer needs a nightly compiler (rustup toolchain install nightly) and cc"
    exit 0
fi
folder=$PWD/target/asan
mkdir -p "$folder/$target/reports"
# Programs of every user leave their reports here.
chmod 1777 "$folder/$target/reports"
rm -f "$folder/$target/reports"/*
# The sandboxes of the tests have an environment of their own, so the options are part of the programs. Small processes that end by _exit
# leave memory behind as they are meant to.
cat >"$folder/options.c" <<END
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0:log_path=$folder/$target/reports/report"; }
END
cc -c -o "$folder/options.o" "$folder/options.c"
# The library finds AddressSanitizer's functions in the program that loads it, and its own not by name: tests take some of these away.
export RUSTFLAGS="-Zsanitizer=address -Clink-arg=$folder/options.o -Clink-arg=-rdynamic -Clink-arg=-Wl,-Bsymbolic"
asan=(--locked --target "$target" --target-dir "$folder")
[ ! -d target/tools ] || ln -sfn "$PWD/target/tools" "$folder/$target/tools"

cargo +nightly build --quiet --workspace "${asan[@]}"
# Not what freezes a file system or limits memory, which AddressSanitizer needs much of.
cargo +nightly test "${asan[@]}" -p getgpu-nvml --lib
cargo +nightly test "${asan[@]}" -p getgpu-tests --test nvml_faults -- --nocapture hostile_library:: failing_library:: busy_or_idle:: drivers::
cargo +nightly test "${asan[@]}" -p getgpu-tests --test sim_fidelity -- --nocapture real_libraries::

reports=("$folder/$target/reports"/*)
if [ -e "${reports[0]}" ]; then
    head -n 20 "${reports[0]}"
    echo "AddressSanitizer: ${#reports[@]} reports in $folder/$target/reports"
    exit 1
fi
echo "AddressSanitizer: no report"
