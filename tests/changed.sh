#!/usr/bin/env bash
# `make check-changed`: the tests of what has changed since BASE (the last commit, or what is not committed yet): unit tests of the
# crates, the themes of tests/suite that show their behaviour, and the project's form. All of it is `make check-all`.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${BASE:-}
if [ -z "$base" ]; then
    base=HEAD
    [ -n "$(git status --porcelain)" ] || base=HEAD~1
fi
mapfile -t changed < <({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
[ "${#changed[@]}" -gt 0 ] || { echo "check-changed: nothing has changed since $base"; exit 0; }

# The themes of a path: the first row that fits.
themes_of() {
    case $1 in
        tests/suite/tests/*/*) cut -d/ -f4 <<<"$1" ;;
        common/lock/*) echo leases reservations queue device_choice error_injection ;;
        common/choose/*) echo device_choice leases queue reservations site_policy ;;
        common/queue/*) echo queue leases ;;
        common/settings/* | common/cli/*) echo site_policy invocation ;;
        common/nvml/* | common/ask/* | tests/sim/*) echo nvml_faults device_choice listing ;;
        common/auto/* | cudawrap/libcudawrap/* | cudawrap/src/auto/*) echo auto ;;
        common/*) echo leases reservations listing ;;
        cudawrap/src/ranks/* | cudawrap/src/bind/*) echo ranks_and_cpus ;;
        cudawrap/src/mps/*) echo mps ;;
        cudawrap/*) echo leases invocation transparency ;;
        getgpu/core/src/list/*) echo listing ;;
        getgpu/core/* | getgpu/src/*) echo reservations device_choice ;;
        getgpu/operate/src/slurm/* | etc/slurm/*) echo slurm ;;
        getgpu/operate/*) echo listing site_policy reservations ;;
        packaging/python/* | tests/python/*) echo recipes ;;
        packaging/* | Makefile) echo installing ;;
    esac
}

crates=() themes=()
for path in "${changed[@]}"; do
    read -ra found < <(themes_of "$path") || :
    themes+=(${found[@]+"${found[@]}"})
    folder=$(dirname "$path")
    while [ "$folder" != . ] && [ ! -e "$folder/Cargo.toml" ]; do folder=$(dirname "$folder"); done
    case $folder in
        . | tests/*) ;;
        *) crates+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -n 1)") ;;
    esac
done
mapfile -t themes < <(printf '%s\n' ${themes[@]+"${themes[@]}"} | sort -u | sed '/^$/d')
echo "check-changed: ${#changed[@]} files since $base: ${crates[*]-} ${themes[*]-}"
cargo build --workspace --locked
[ "${#crates[@]}" -eq 0 ] || cargo test --locked --no-fail-fast "${crates[@]}"
for theme in ${themes[@]+"${themes[@]}"}; do
    cargo test --locked --no-fail-fast -p getgpu-tests --test "$theme" -- --test-threads "${TEST_THREADS:-4}"
done
cargo test --locked -p xtask
