#!/usr/bin/env bash
# Installs the pinned CUDA compiler into .cuda/ at the root of the repository: a build needs nothing else of the toolkit.
set -euo pipefail
cd "$(dirname "$0")/../.."

# All five by name: pip alone would mix versions.
packages=(
  nvidia-cuda-nvcc==13.0.88
  nvidia-cuda-crt==13.0.88
  nvidia-nvvm==13.0.88
  nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85
)
stamp="${packages[*]}"
nvcc=.cuda/nvidia/cu13/bin/nvcc
if [ -x "$nvcc" ] && [ "$(cat .cuda/stamp 2>/dev/null)" = "$stamp" ]; then
  echo "nvcc is there: $nvcc"
  exit 0
fi
rm -rf .cuda
python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --only-binary=:all: \
  --target .cuda "${packages[@]}"
echo "$stamp" > .cuda/stamp
"$nvcc" --version | tail -n 2
