#!/usr/bin/env bash
# Which lines of the products the unit tests run, by crate and by file. The process tests of tests/suite are not in it: a program that
# executes another, or is killed, writes no profile. Without cargo-llvm-cov or llvm-tools it says SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PATH:$PWD/target/tools/bin
if ! cargo llvm-cov --version >/dev/null 2>&1; then
    echo "SKIPPED: cargo-llvm-cov is not installed (cargo install cargo-llvm-cov; rustup component add llvm-tools)"
    exit 0
fi
products=(-p getgpu-common -p getgpu-nvml -p getgpu -p cudawrap -p create-cudawrap)
mkdir -p target/coverage
cargo llvm-cov --quiet --locked "${products[@]}" --lib --bins --json --summary-only --output-path target/coverage/summary.json >target/coverage/log 2>&1 ||
    { tail -n 30 target/coverage/log; exit 1; }
python3 - target/coverage/summary.json <<'END'
import collections, json, os, sys

root = os.getcwd() + "/"
crates = {"common/nvml/": "getgpu-nvml", "common/": "getgpu-common", "getgpu/": "getgpu", "cudawrap/hook/": "cudawrap-hook", "cudawrap/": "cudawrap", "create-cudawrap/": "create-cudawrap"}
lines = collections.defaultdict(lambda: [0, 0])
for file in json.load(open(sys.argv[1]))["data"][0]["files"]:
    name = file["filename"].removeprefix(root)
    crate = next((crate for folder, crate in crates.items() if name.startswith(folder)), None)
    # Tests beside the code are no products.
    if crate is None or name.endswith(("_tests.rs", "_properties.rs", "/tests.rs")):
        continue
    found = file["summary"]["lines"]
    for key in (crate, name):
        lines[key][0] += found["covered"]
        lines[key][1] += found["count"]
for key, (covered, count) in sorted(lines.items(), key=lambda item: ("/" in item[0], item[0])):
    if count:
        print(f"{100 * covered / count:6.1f} %  {covered:5} of {count:5} lines  {key}")
END
