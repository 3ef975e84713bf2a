#!/usr/bin/env bash
# Builds the PyTorch adapter and runs it on a GPU; under five minutes.  Ends with 77 without a GPU.
#
#   tests/gpu/torch.sh [PYTHON]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${1:-python3}
"$python" -c 'import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)' 2>/dev/null || {
    echo "skipped: $python has no PyTorch that sees a CUDA device"
    exit 77
}
cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DDTR_TESTS=OFF -DDTR_TORCH=ON \
    -DDTR_TORCH_PYTHON="$python" >/dev/null
cmake --build build/gpu --target dtrscope dtr_torch
export PYTHONPATH=$PWD/build/gpu/python DTRSCOPE_BIN=$PWD/build/gpu/dtrscope DTRSCOPE_SOURCE=$PWD
"$python" -m dtrscope.doctor
"$python" tests/gpu/torch.py
