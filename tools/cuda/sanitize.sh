#!/usr/bin/env bash
# Runs the operations' case tables and two whole models under compute-sanitizer: sanitize.sh memcheck|racecheck [LAUNCHES]
# Only the first LAUNCHES kernels of each group are checked (100 unless told otherwise): a checked one is a hundred times as slow.
set -uo pipefail
cd "$(dirname "$0")/../.."

tool=${1:?memcheck or racecheck}
launches=${2:-100}
export REQUIRE_KERNELS=1 REQUIRE_GPU=1
cargo test --locked -p cuda --no-run --quiet || exit 1
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="compute-sanitizer --tool $tool --launch-count $launches --error-exitcode 9"

failed=0
group() {
  local name=$1 out
  shift
  out=$(cargo test --locked -p cuda "$@" 2>&1)
  local status=$?
  echo "$name: $(grep -cE '^test .* ok$' <<< "$out") tests ok, $(grep -oE 'ERROR SUMMARY: .*|RACECHECK SUMMARY: .*' <<< "$out" | tail -n 1)"
  if [ $status -ne 0 ]; then
    grep -E 'Invalid|Race reported|hazard|Internal Sanitizer|FAILED' <<< "$out" | sort | uniq -c | head -n 10
    failed=1
  fi
}
operation() { group "$1" --lib -- --test-threads 1 "ops::$1::tests"; }

for name in embed convert synthesize rms_norm residual_norm activation finish_logits qkv_prepare; do operation "$name"; done
for name in attention_decode attention_prefill skinny gemm sample; do operation "$name"; done
for fixture in qwen3 gemma3; do group "the model $fixture" --test goldens -- --exact --test-threads 1 "$fixture"; done
exit $failed
