#!/usr/bin/env bash
# The PyTorch adapter on Debian 13, whose PyTorch is 2.6: makes a root in DIR if there is none, builds in
# it, and runs all configurations and cases.  Needs root, debootstrap and 2 GB.
#
#   tests/torch/trixie.sh DIR [quick]
set -euo pipefail
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
root=${1:?give a directory for the root} quick=${2:+--quick}
packages=(gcc g++ cmake ninja-build pkg-config libsqlite3-dev libjansson-dev liblzma-dev libzstd-dev
          zlib1g-dev libmicrohttpd-dev libopenblas-dev python3-torch libtorch-dev python3-numpy python3-setuptools)

[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase trixie "$root"
mountpoint -q "$root/proc" || mount --bind /proc "$root/proc"
trap 'umount "$root/proc"' EXIT
chroot "$root" sh -c "dpkg-query -W ${packages[*]} >/dev/null 2>&1 || { apt-get update -q &&
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ${packages[*]}; }"
rm -rf "$root/dtrscope"
mkdir "$root/dtrscope"
(cd "$source_dir" && git ls-files -z | tar --null -T - -c) | tar x -C "$root/dtrscope"
chroot "$root" bash -euc "
    cd /dtrscope
    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDTR_TESTS=OFF -DDTR_TORCH=ON >/dev/null
    cmake --build build --target dtrscope dtr_torch >build.log || { tail build.log; exit 1; }
    export PYTHONPATH=\$PWD/build/python DTRSCOPE_BIN=\$PWD/build/dtrscope DTRSCOPE_SOURCE=\$PWD
    export OMP_NUM_THREADS=1
    python3 -m dtrscope.doctor
    cd tests/torch
    python3 identical.py $quick
    python3 behaviour.py
    python3 operators.py
    python3 unchanged.py"
