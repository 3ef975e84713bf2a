#!/usr/bin/env bash
# Every kind of file that dtrscope writes is sound in the eyes of `dtrscope check`.
set -euo pipefail
tool=$DTRSCOPE_BIN data=$DTRSCOPE_SOURCE/tests/data charlm=$DTRSCOPE_BUILD/examples/charlm
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
n=0

sound() { # WHAT [EXIT CODE]: of the file k; removes it
    local code=0
    "$tool" check --strict "$folder/k" >"$folder/out" 2>&1 || code=$?
    if [ "$code" != "${2:-0}" ]; then
        echo "$1: exit code $code, expected ${2:-0}"
        head -5 "$folder/out"
        exit 1
    fi
    n=$((n + 1))
    rm -f "$folder"/k*
}

live() { "$tool" record -o "$folder/k" "$@" >"$folder/log" 2>&1; }

for log in 1 6; do
    for heuristic in dtr dtr-eq random; do
        for budget in 30% 60% none; do
            for policy in eager ignore banish; do
                "$tool" sim "$data/random/rnd$log.log" --budget $budget -e $heuristic \
                    --policy $policy -o "$folder/k" >"$folder/log"
                sound "sim rnd$log $heuristic $budget $policy"
            done
        done
    done
done
"$tool" sim --chain 2000 --budget 2sqrt -o "$folder/k" >"$folder/log"
sound chain
"$tool" sim --chain 2000 --budget 2sqrt --reclaim -e lru --remat-limit 2x -o "$folder/k" >"$folder/log"
sound thrashed

for policy in eager ignore banish; do
    live --budget 22MiB --policy $policy -- "$charlm" --steps 2
    sound "live $policy"
done
live -- "$charlm" --steps 1
sound "without a budget"
live --budget 3MiB -e dtr -- "$DTRSCOPE_BUILD/examples/mlp"
sound mlp
live --budget 4MiB --overshoot -- "$charlm" --steps 1
sound overshoot
live --budget 4MiB -- "$charlm" --steps 1 && { echo "it was to run out of memory"; exit 1; }
sound "out of memory"
live --budget 22MiB --stacks 5 -- "$charlm" --steps 1
sound stacks
DTR_BUDGET=22MiB DTR_RECORD=$folder/k "$charlm" --steps 1 >"$folder/log"
sound "without record"
live --budget 22MiB --steps 1:2 -- "$charlm" --steps 3
sound steps 3
live --budget 22MiB --delay 100ms --duration 200ms -- "$charlm" --steps 3
sound delay 3
live --keep-events 5000 -- "$charlm" --steps 3
sound "flight recorder" 3
live --budget 22MiB --ring-full drop --ring-events 64 -- "$charlm" --steps 2
"$tool" info "$folder/k" | grep -q LOST && lost=3 || lost=0
sound "a small ring" $lost
live --budget 22MiB --compress zstd -- "$charlm" --steps 1
sound compressed
(sleep 0.4; pkill -KILL -f "^$folder/k-killed") &
live -- bash -c "exec -a $folder/k-killed $charlm --steps 1000" || true
sound killed 3
wait

for old in "$data"/schema/*.sqlite; do
    cp "$old" "$folder/k"
    sound "$old"
done
"$tool" import "$data/random/rnd3.log" -o "$folder/k" &>"$folder/log"
sound "an operator log"
live --budget 22MiB -- "$charlm" --steps 1
mv "$folder/k" "$folder/a"
"$tool" merge -o "$folder/k" "$folder/a" "$data"/schema/v1-sim.dtr.sqlite 2>"$folder/log"
sound merged
"$tool" check --format json "$folder/a" | grep -q '"findings": 0'
echo "$n files are sound"
