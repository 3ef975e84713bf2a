#!/usr/bin/env bash
# Installs what is needed on Debian 12, builds, and runs one of:
#
#   ./setup.sh demo     train a model under a budget, record it, compare heuristics, serve the page
#   ./setup.sh test     build in several ways and run all tests
#   ./setup.sh bench    measure, and write build/bench.json
#   ./setup.sh build    only build (build/release)
#
# demo --once ends after the page has answered, instead of serving until Ctrl-C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

BUILD_PACKAGES=(gcc g++ cmake ninja-build pkg-config libsqlite3-dev libjansson-dev liblzma-dev
                libmicrohttpd-dev libopenblas-dev zlib1g-dev curl)
TEST_PACKAGES=(clang clang-format libclang-rt-14-dev libcmocka-dev python3 sqlite3)
PAGE_PACKAGES=(chromium)

say() { printf '\n== %s\n' "$*"; }
die() { printf 'setup.sh: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else die "root or sudo is needed to install: $*"
    fi
}

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# Installs the packages that are missing; asks nothing of the network when none is.
need() {
    local missing=()
    for package in "$@"; do installed "$package" || missing+=("$package"); done
    [ ${#missing[@]} = 0 ] && return
    command -v apt-get >/dev/null || die "please install: ${missing[*]}"
    say "installing ${missing[*]}"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "${missing[@]}"
}

need_node() {
    command -v node >/dev/null && command -v npm >/dev/null || need nodejs npm
}

build() { # preset, further cmake arguments
    local preset=$1
    shift
    say "building $preset"
    cmake --preset "$preset" "$@" >/dev/null
    cmake --build "build/$preset"
}

run_demo() {
    local once=${1:-} tool=build/release/dtrscope out=build/demo
    need "${BUILD_PACKAGES[@]}"
    build release -DDTR_TESTS=OFF
    mkdir -p "$out"
    say "training a character model without a budget"
    "$tool" record --force -o "$out/unlimited.dtr.sqlite" -- build/release/examples/charlm --steps 4
    local peak
    peak=$(sqlite_value "$out/unlimited.dtr.sqlite")
    say "training it with half of that memory"
    "$tool" record --force --budget $((peak / 2)) --heuristic dtr-eq -o "$out/half.dtr.sqlite" -- \
        build/release/examples/charlm --steps 20
    "$tool" stats "$out/half.dtr.sqlite"
    say "every heuristic at every budget, replayed from the recorded run"
    rm -f "$out/sweep.dtr.sqlite"
    "$tool" sweep "$out/unlimited.dtr.sqlite" --heuristics dtr,dtr-eq,dtr-local,msps,lru,size,random \
        --budgets 20%..100%:10% -o "$out/sweep.dtr.sqlite"
    say "the page: open the address; Ctrl-C ends it"
    if [ "$once" = --once ]; then
        "$tool" serve "$out/half.dtr.sqlite" "$out/sweep.dtr.sqlite" --port 0 >"$out/serve.log" &
        local server=$!
        trap 'kill $server 2>/dev/null || true' EXIT
        for _ in $(seq 50); do
            grep -q 'http://' "$out/serve.log" && break
            sleep 0.1
        done
        cat "$out/serve.log"
        local address
        address=$(grep -o 'http://[0-9.:]*' "$out/serve.log" | head -n 1)
        curl -fsS -o /dev/null "$address/" && echo "the page answers"
        kill -INT $server
        wait $server
        trap - EXIT
    else
        exec "$tool" serve "$out/half.dtr.sqlite" "$out/sweep.dtr.sqlite" \
            "$out/unlimited.dtr.sqlite"
    fi
}

# The peak of the first run of a file, without the sqlite3 program.
sqlite_value() {
    build/release/dtrscope stats --format json "$1" |
        sed -n 's/.*"peak_bytes": \([0-9]*\),.*/\1/p' | head -n 1
}

run_tests() {
    need "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${PAGE_PACKAGES[@]}"
    need_node
    (cd web && npm ci --no-audit --no-fund)
    build debug -DDTR_WERROR=ON
    build asan -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DDTR_WERROR=ON
    build tsan
    build release
    say "tests with sanitizers"
    ctest --preset asan -LE 'e2e|parity|house' -j2
    say "tests with the thread sanitizer"
    ctest --preset tsan -R 'record|sweep|session|serve' -j2
    say "tests with checks after each call"
    ctest --preset debug -LE 'e2e|house|parity' -j2
    say "all tests, as released"
    ctest --preset release -j2
}

run_bench() {
    need "${BUILD_PACKAGES[@]}" python3 libcmocka-dev
    build release
    python3 tests/bench/bench.py --build build/release --output build/bench.json "$@"
}

case "${1:-}" in
demo) shift; run_demo "$@" ;;
test) run_tests ;;
bench) shift; run_bench "$@" ;;
build) need "${BUILD_PACKAGES[@]}"; build release -DDTR_TESTS=OFF ;;
*) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
