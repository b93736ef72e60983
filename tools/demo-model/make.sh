#!/usr/bin/env bash
# Makes the demo model from nothing: make.sh OUT [DATA]
# OUT: the checkpoint. DATA: a folder for the training data, a temporary one if not named.
set -euo pipefail
out=$(realpath -m "$1")
data=$(realpath -m "${2:-$(mktemp -d)}")
cd "$(dirname "$0")"
python=${PYTHON:-python3}

$python tokenizer.py "$out" 20000
$python generate.py "$out" "$data" 240
$python train.py "$out" "$data" 7200
$python evaluate.py "$out" "$data" "$out.json"
