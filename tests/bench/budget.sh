#!/usr/bin/env bash
# A budget of instructions, so that a change that makes the commands dearer does not pass unseen: tests/bench/budget.sh DIRECTORY OF THE PROGRAMS
# Counted by callgrind, all processes of a call together, as a ratio to a minimal C client on the same library in the same run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
if ! command -v valgrind >/dev/null; then
    echo "SKIPPED: the budget of instructions needs valgrind"
    exit 0
fi
# shellcheck source=tests/bench/room.sh
. "$here/room.sh"

client=$(instructions "$room/client")
uuid=$("$bin/getgpu" --no-reserve)
wrong=0
# Name, tenths of the client's instructions that are allowed, the call.
within() {
    local name=$1 most=$2 found
    shift 2
    found=$(instructions "$@")
    printf '%-34s %10d instructions, %d.%d times the C client, budget %d.%d\n' "$name" "$found" \
        $((found * 10 / client / 10)) $((found * 10 / client % 10)) $((most / 10)) $((most % 10))
    if [ $((found * 10)) -gt $((client * most)) ]; then
        echo "budget.sh: $name: over its budget" >&2
        wrong=1
    fi
}
# Up to the exec for cudawrap: callgrind counts a process only if it ends as itself, so the program is one that cannot be executed.
within "getgpu --no-reserve" "${GETGPU_BUDGET:-35}" "$bin/getgpu" --no-reserve
within "cudawrap -- PROGRAM" "${CUDAWRAP_BUDGET:-39}" "$bin/cudawrap" -- /
# Under its own name NVML is asked who else is on a device that is named, under a link it is not.
ln -s "$bin/cudawrap" "$room/none"
ln -s / "$room/CUDAWRAP_none"
within "linked program, device named" "${NAMED_BUDGET:-9}" env CUDA_VISIBLE_DEVICES="$uuid" "$room/none"
exit "$wrong"
