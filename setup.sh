#!/usr/bin/env bash
# Installs what is needed on Debian 12, builds, and runs one of:
#
#   ./setup.sh demo [--once]   train a model under a budget, record it, compare heuristics and serve
#                              the page; --once ends when the page has answered
#   ./setup.sh test            build in several ways and run all tests
#   ./setup.sh bench [--quick] measure; prints a table and writes build/bench.json
#   ./setup.sh build           only build, into build/release; with the PyTorch adapter if there is
#                              a PyTorch with its headers
#   ./setup.sh torch           the same, and installs Debian's PyTorch for it
#
# Packages come from apt, with root or sudo; when all are there, no network is needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

BUILD_PACKAGES=(gcc g++ cmake ninja-build pkg-config libsqlite3-dev libjansson-dev liblzma-dev
                libzstd-dev zlib1g-dev libmicrohttpd-dev libopenblas-dev)
TORCH_PACKAGES=(python3-torch libtorch-dev python3-numpy)
TEST_PACKAGES=(clang libclang-rt-14-dev clang-format libcmocka-dev python3 sqlite3 curl procps
               chromium)

say() { printf '\n== %s\n' "$*"; }
die() { printf 'setup.sh: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else die "root or sudo is needed for: $*"
    fi
}

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# Installs the packages that are missing; asks nothing of the network when none is.
need() {
    command -v dpkg-query >/dev/null || die "this is no Debian; install by hand: $*"
    local missing=() package
    for package in "$@"; do installed "$package" || missing+=("$package"); done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "${missing[@]}"
}

# Node may have come from elsewhere than Debian, with its own npm.
need_node() {
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then need nodejs npm; fi
}

# The packages that check and build the page; the page itself is committed in its built form.
need_page_packages() {
    need_node
    [ web/node_modules/.package-lock.json -nt web/package-lock.json ] ||
        (cd web && npm ci --no-audit --no-fund)
}

build() { # PRESET [ARGUMENTS OF CMAKE]
    local preset=$1
    shift
    say "building $preset"
    cmake --preset "$preset" "$@" >/dev/null
    cmake --build --preset "$preset"
}

# --- demo ---

peak_bytes() { # FILE: the peak of its first run
    "$tool" stats --format json "$1" | sed -n 's/.*"peak_bytes": *\([0-9]*\).*/\1/p' | head -n 1
}

# Serves the files in the background until the page has answered once.
serve_once() {
    local log=$out/serve.log address server
    "$tool" serve "$@" >"$log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        grep -q 'http://' "$log" && break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$log"
    address=$(grep -o -m 1 'http://[0-9.]*:[0-9]*' "$log" || true)
    if [ -z "$address" ] || ! curl -fsS -o "$out/page.html" "$address/" ||
        ! grep -qi '<!doctype html' "$out/page.html"; then
        kill "$server" 2>/dev/null || true
        die "the page did not answer; see $log"
    fi
    echo "the page answered: $(wc -c <"$out/page.html") bytes"
    kill -INT "$server"
    wait "$server"
}

run_demo() {
    local once=no
    case "${1:-}" in
    "") [ -z "${DTR_DEMO_NO_SERVE:-}" ] || once=yes ;;
    --once) once=yes ;;
    *) die "demo: unknown argument '$1'" ;;
    esac
    tool=build/release/dtrscope out=build/demo
    need "${BUILD_PACKAGES[@]}" curl
    build release -DDTR_TESTS=OFF
    mkdir -p "$out"

    say "training a character model for two steps without a budget, to learn its peak"
    "$tool" record --force -o "$out/unlimited.dtr.sqlite" -- build/release/examples/charlm --steps 2
    local peak
    peak=$(peak_bytes "$out/unlimited.dtr.sqlite")
    [ -n "$peak" ] || die "the recorded run tells no peak"

    say "training it for 20 steps in 60 % of that, every event recorded"
    "$tool" record --force --budget $((peak * 6 / 10)) --heuristic dtr-eq \
        -o "$out/charlm.dtr.sqlite" -- build/release/examples/charlm --steps 20
    "$tool" stats "$out/charlm.dtr.sqlite"

    say "every heuristic at every budget, replayed from the recorded run"
    rm -f "$out"/sweep.dtr.sqlite*
    "$tool" sweep "$out/unlimited.dtr.sqlite" --budgets 20%..100%:10% -o "$out/sweep.dtr.sqlite"

    if [ $once = yes ]; then
        say "serving the page once"
        serve_once "$out/charlm.dtr.sqlite" "$out/sweep.dtr.sqlite"
    else
        say "serving the page; Ctrl-C ends it"
        exec "$tool" serve "$out/charlm.dtr.sqlite" "$out/sweep.dtr.sqlite"
    fi
}

# --- test ---

failed=()

run_ctest() { # PRESET [ARGUMENTS OF CTEST]
    local preset=$1
    shift
    say "tests: $preset"
    ctest --preset "$preset" -j "$(nproc)" --no-tests=error "$@" || failed+=("$preset")
}

# Every preset runs even if one before it failed, so that one round shows all that is wrong.  The
# release comes last and runs everything; what takes minutes is left out where checks slow it down.
run_tests() {
    need "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${TORCH_PACKAGES[@]}"
    need_page_packages
    build debug -DDTR_WERROR=ON
    build asan -DDTR_WERROR=ON
    build tsan
    build release -DDTR_TESTS=ON -DDTR_TORCH=ON
    run_ctest debug -LE 'parity|e2e|house'
    run_ctest asan -LE 'parity|e2e|house'
    run_ctest tsan -R 'record|session|sweep|serve'
    run_ctest release
    [ ${#failed[@]} = 0 ] || die "tests failed in: ${failed[*]}"
}

# --- bench ---

run_bench() {
    need "${BUILD_PACKAGES[@]}" python3 libcmocka-dev lttng-tools liblttng-ust-dev \
        "${TORCH_PACKAGES[@]}"
    build release -DDTR_TESTS=ON
    python3 tests/bench/bench.py --build build/release --output build/bench.json "$@"
}

case "${1:-}" in
demo) shift; run_demo "$@" ;;
test) run_tests ;;
bench) shift; run_bench "$@" ;;
build) need "${BUILD_PACKAGES[@]}"; build release -DDTR_TESTS=OFF ;;
torch) need "${BUILD_PACKAGES[@]}" "${TORCH_PACKAGES[@]}"
       build release -DDTR_TESTS=OFF -DDTR_TORCH=ON
       PYTHONPATH=build/release/python /usr/bin/python3 -m dtrscope.doctor ;;
*) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
