#!/usr/bin/env bash
# Makes the demo model from nothing: make.sh OUT [DATA]
# OUT: the checkpoint. DATA: a folder for the training data, a temporary one if not named. Data are made beside the training.
set -euo pipefail
out=$(realpath -m "$1")
data=$(realpath -m "${2:-$(mktemp -d)}")
cd "$(dirname "$0")"
python=${PYTHON:-python3}
cores=$(nproc)

$python tokenizer.py "$out" 20000
PROCESSES=${PROCESSES:-$((cores > 6 ? cores - 4 : cores))} $python generate.py "$out" "$data" 1256 &
maker=$!
$python train.py "$out" "$data" 10477
wait "$maker"
$python evaluate.py "$out" "$data" "$out.json"
