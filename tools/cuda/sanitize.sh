#!/usr/bin/env bash
# Runs the operations' tests and two whole models under compute-sanitizer: sanitize.sh memcheck|racecheck [LAUNCHES [FOLDER]]
#
# Every test has a process of its own, as many at a time as there are cores, and PATIENCE seconds (120). Only the first LAUNCHES
# kernels of each are checked (100 unless told otherwise): a checked one is a hundred times as slow. FOLDER holds the executables
# of tests `cuda` and `goldens` of an earlier build; without it they are built. Tests that match SKIP, a pattern, are left out.
set -uo pipefail
cd "$(dirname "$0")/../.."

tool=${1:?memcheck or racecheck}
launches=${2:-100}
patience=${PATIENCE:-120}
export REQUIRE_KERNELS=1 REQUIRE_GPU=1
if [ $# -ge 3 ]; then
  cuda=$3/cuda goldens=$3/goldens
else
  built=$(cargo test --locked -p cuda --lib --test goldens --no-run 2>&1) || { echo "$built"; exit 1; }
  cuda=$(sed -n 's/.*Executable.*src\/lib.rs (\(.*\))/\1/p' <<< "$built")
  goldens=$(sed -n 's/.*Executable.*goldens.rs (\(.*\))/\1/p' <<< "$built")
fi

# One test; a line that says what came of it, and below it what was found.
check() {
  local executable=$1 name=$2 out status verdict
  out=$(timeout "$patience" compute-sanitizer --tool "$tool" --launch-count "$launches" --error-exitcode 9 \
    "$executable" --exact --test-threads 1 "$name" 2>&1)
  status=$?
  if grep -q 'before first instrumented API call' <<< "$out"; then verdict='no launch'
  elif grep -q 'Internal Sanitizer Error' <<< "$out"; then verdict='tool broke'
  elif [ $status -eq 124 ]; then verdict='too slow'
  elif [ $status -ne 0 ]; then verdict='FOUND'
  else verdict='clean'; fi
  printf '%-10s  %s\n' "$verdict" "$name"
  if [ "$verdict" = FOUND ]; then
    grep -E 'Invalid|Race reported|hazard|FAILED|panicked' <<< "$out" | sort | uniq -c | head -n 10
  fi
}
export -f check
export tool launches patience

run_all() {
  {
    "$cuda" --list 2> /dev/null | sed -n 's/^\(ops::.*tests::.*\): test$/\1/p' | grep -vE "${SKIP:-^$}" | sed "s|^|$cuda |"
    for fixture in qwen3 gemma3; do echo "$goldens $fixture"; done
  } | xargs -P "$(nproc)" -L 1 bash -c 'check "$1" "$2"' check
}
results=$(mktemp)
trap 'rm -f "$results"' EXIT
run_all | tee "$results"
unclean=$(grep -cE '^(FOUND|tool broke|too slow)' "$results")
echo "$tool of $launches launches a test: $(grep -c '^clean' "$results") clean, $unclean not"
[ "$unclean" -eq 0 ]
