#!/usr/bin/env bash
# Runs every test of the CUDA backend on this machine's GPU; without a GPU they fail instead of being skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."

export REQUIRE_KERNELS=1 REQUIRE_GPU=1
cargo test --locked -p cuda
