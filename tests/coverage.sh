#!/usr/bin/env bash
# Which lines of the products run, by crate and by file: in the unit tests, and in these and the processes that the tests of tests/suite and
# create-cudawrap start. The counters lie in files that all processes of a program map, so that one that executes another program, is killed
# or ends by _exit counts too. `unit` as an argument: the unit tests alone. Without llvm-tools it says SKIPPED. About 15 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
llvm=$(rustc --print sysroot)/lib/rustlib/$host/bin
if [ ! -x "$llvm/llvm-cov" ] || ! command -v cc >/dev/null; then
    echo "SKIPPED: llvm-tools (rustup component add llvm-tools) or cc is not installed"
    exit 0
fi
folder=$PWD/target/coverage
rm -rf "$folder/profiles" "$folder/unit"
mkdir -p "$folder/profiles" "$folder/unit"
# Programs of every user count.
chmod 1777 "$folder/profiles"

# The sandboxes of the tests have an environment of their own, so each program brings the name of its file; nothing of that is left in the
# environment when it begins.
cat >"$folder/name.c" <<END
#include <stdlib.h>
__attribute__((constructor(101))) static void set(void) { setenv("LLVM_PROFILE_FILE", "$folder/profiles/%m%c.profraw", 1); }
__attribute__((constructor)) static void unset(void) { unsetenv("LLVM_PROFILE_FILE"); }
END
cc -fPIC -c -o "$folder/name.o" "$folder/name.c"
# Not sh: some lose variables such as CARGO_BIN_EXE_create-cudawrap, which is no name to them.
cat >"$folder/rustc" <<END
#!/usr/bin/env bash
exec "\$@" -C instrument-coverage -C llvm-args=-runtime-counter-relocation -C link-arg=$folder/name.o
END
chmod +x "$folder/rustc"
export RUSTC_WORKSPACE_WRAPPER=$folder/rustc
counted() {
    cargo "$1" --locked --target-dir "$folder/build" "${@:2}"
}

libraries=(-p getgpu-linux -p getgpu-model -p getgpu-lock -p getgpu-settings -p getgpu-cli -p getgpu-ask -p getgpu-auto -p getgpu-choose -p getgpu-queue -p getgpu-core -p getgpu-operate)
products=("${libraries[@]}" -p getgpu-nvml -p getgpu -p cudawrap -p create-cudawrap)
counted test --quiet "${products[@]}" --lib --bins >"$folder/log" 2>&1 || { tail -n 30 "$folder/log"; exit 1; }
mapfile -t tests < <(counted test "${products[@]}" --lib --bins --no-run --message-format=json 2>/dev/null |
    python3 -c 'import json, sys
for line in sys.stdin:
    name = json.loads(line).get("executable")
    if name: print(name)')
# summary PROFILES... : what llvm-cov says of the profiles, for the programs behind `--`.
summary() {
    local name=$1 profiles=()
    shift
    while [ "$1" != -- ]; do profiles+=("$1"); shift; done
    shift
    "$llvm/llvm-profdata" merge -sparse -o "$folder/$name.profdata" "${profiles[@]}"
    local objects=("$1")
    for object in "${@:2}"; do objects+=(-object "$object"); done
    "$llvm/llvm-cov" export --summary-only --instr-profile "$folder/$name.profdata" "${objects[@]}" >"$folder/$name.json" 2>>"$folder/log"
}
mv "$folder"/profiles/*.profraw "$folder/unit/"
summary unit "$folder"/unit/*.profraw -- "${tests[@]}"

summaries=("$folder/unit.json")
if [ "${1:-}" != unit ]; then
    counted build --quiet --workspace
    # The files of the programs, which other users write to, too.
    for program in getgpu cudawrap create-cudawrap; do "$folder/build/debug/$program" --version >/dev/null; done
    chmod 0666 "$folder"/profiles/*.profraw
    # Not what builds and installs. A test that measures time or memory may fail here.
    suite=()
    for test in tests/suite/tests/*/; do
        case $test in */installing/) ;; *) suite+=(--test "$(basename "$test")") ;; esac
    done
    [ ! -d target/tools ] || ln -sfn "$PWD/target/tools" "$folder/build/tools"
    counted test --no-fail-fast -p getgpu-tests "${suite[@]}" >>"$folder/log" 2>&1 || true
    counted test --no-fail-fast -p create-cudawrap --test commands --test plans --test crash_safety --test toggle >>"$folder/log" 2>&1 || true
    sed -n 's/^test \(.*\) \.\.\. FAILED$/failed here: \1/p' "$folder/log"
    programs=("$folder"/build/debug/{getgpu,cudawrap,create-cudawrap,libcudawrap.so})
    summary all "$folder"/unit/*.profraw "$folder"/profiles/*.profraw -- "${tests[@]}" "${programs[@]}"
    summaries+=("$folder/all.json")
fi
python3 - "${summaries[@]}" <<'END'
import collections, json, os, sys

root = os.getcwd() + "/"
crates = {f"common/{name}/": f"getgpu-{name}" for name in ("linux", "model", "lock", "settings", "cli", "ask", "auto", "choose", "nvml")}
crates |= {"getgpu/": "getgpu", "cudawrap/libcudawrap/": "libcudawrap", "cudawrap/": "cudawrap", "create-cudawrap/": "create-cudawrap"}
columns = []
for summary in sys.argv[1:]:
    lines = collections.defaultdict(lambda: [0, 0])
    for file in json.load(open(summary))["data"][0]["files"]:
        name = file["filename"].removeprefix(root)
        crate = next((crate for folder, crate in crates.items() if name.startswith(folder)), None)
        # Tests beside the code are no products.
        if crate is None or name.endswith(("_tests.rs", "_properties.rs", "/tests.rs")):
            continue
        found = file["summary"]["lines"]
        for key in (crate, name):
            lines[key][0] += found["covered"]
            lines[key][1] += found["count"]
    columns.append(lines)
print("  unit tests" + "   with processes" * (len(columns) - 1))
for key in sorted(columns[-1], key=lambda key: ("/" in key, key)):
    shares = [100 * lines[key][0] / lines[key][1] if lines[key][1] else 0 for lines in columns]
    print("".join(f"{share:10.1f} %" for share in shares), f"  of {columns[-1][key][1]:5} lines  {key}")
END
