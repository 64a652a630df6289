#!/usr/bin/env bash
# Says how many tests a run left out, and why: skipped.sh LOG, with the log that tests/harness/src/skip.rs has written.
set -euo pipefail
log=$1
[ -s "$log" ] || { echo "No test was skipped."; exit 0; }
printf '%s tests or parts of tests were skipped on this machine (SKIPPED above names them), because:\n' "$(wc -l <"$log")"
sed -E 's/^SKIPPED: (a test|[^ ]*): //' "$log" | sort | uniq -c | sort -rn
