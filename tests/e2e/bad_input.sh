#!/bin/sh
# Bad input on the command line: every case has to end with the documented exit status, within the
# time limit, with a sentence that holds the given words, on standard error.
#
#     bad_input.sh DTRSCOPE SOURCE BUILD
#
# Exit statuses: 0 done, 1 failed, 2 wrong usage, 4 a schema of another version.
set -u
dtrscope=$1
log=$2/tests/data/random/rnd1.log
build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect STATUS WORDS ARGUMENTS...
expect()
{
    status=$1
    words=$2
    shift 2
    timeout 60 "$dtrscope" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    if [ $got -ne "$status" ]; then
        echo "dtrscope $*: exit status $got, not $status: $(cat "$work/err")"
        failures=$((failures + 1))
    elif [ -n "$words" ] && ! grep -qF -- "$words" "$work/err"; then
        echo "dtrscope $*: no '$words' in: $(cat "$work/err")"
        failures=$((failures + 1))
    fi
}

# Budgets.
expect 2 "'0' is no budget" sim "$log" --budget 0
expect 2 "'0%' is no budget" sim "$log" --budget 0%
expect 2 "'-5' is no budget" sim "$log" --budget=-5
expect 2 "'NaN' is no budget" sim "$log" --budget NaN
expect 2 "'inf' is no budget" sim "$log" --budget inf
expect 2 "'' is no budget" sim "$log" --budget ''
expect 2 "--budget needs B" sim "$log" --budget

# Below the need of one operator is a result, not an error, and says what was needed.
expect 0 "" sim "$log" --budget 1 --format json
grep -q '"result": "out_of_memory"' "$work/out" || {
    echo "a budget of 1 byte: $(cat "$work/out")"
    failures=$((failures + 1))
}
expect 0 "" sim "$log" --budget 1
grep -q 'raise the budget' "$work/out" || {
    echo "no remedy in: $(cat "$work/out")"
    failures=$((failures + 1))
}

# Names.
for name in dtr dtr-eq dtr-local msps lru size random dtr-nbhd-stale e-stale none-size-stale; do
    expect 2 " $name," sim "$log" --budget 50% --heuristic nonesuch
done
expect 2 "did you mean --heuristic?" sim "$log" --heristic dtr
expect 2 "did you mean --budget?" sim "$log" --buget 40%
expect 2 "is not one of eager, ignore, banish" sim "$log" --policy lazy
expect 2 "is not one of" sim "$log" --search binary
expect 2 "is no whole number" sim "$log" --seed x
expect 2 "there is no command 'simulate'" simulate "$log"
expect 2 "--remat-limit: 'abcx' is no limit" sim "$log" --budget 50% --remat-limit abcx
expect 2 "-1" sim --chain -1
expect 2 "usage:" sim
expect 2 "usage:" sim "$log" "$log"

# Plugins.
expect 1 "not-there.so" sim "$log" --budget 50% --heuristic ./not-there.so
expect 1 "exports no function" sim "$log" --budget 50% --heuristic "$build/tests/plugins/empty.so"
expect 1 "returned NaN for storage" sim "$log" --budget 50% \
    --heuristic "$build/tests/plugins/nan.so"
expect 2 "plugins have no index" sim "$log" --budget 50% --search index \
    --heuristic "$build/examples/plugin_oldest_big.so"

# Files.
expect 1 "cannot open $work/none.log" sim "$work/none.log"
expect 1 "cannot read" sim /
echo 'hello' >"$work/text.log"
expect 1 "$work/text.log:1: not JSON" sim "$work/text.log"
head -c 500 "$log" >"$work/cut.log"
expect 1 "$work/cut.log:" sim "$work/cut.log"
expect 1 "standard input: there is no ANNOTATE START" sim -
expect 1 "$work/text.log" info "$work/text.log"
expect 1 "none.sqlite" stats "$work/none.sqlite"
expect 0 "" sim "$log" --budget 80% --record "$work/run.dtr.sqlite"
expect 1 "--force" sim "$log" --budget 80% --record "$work/run.dtr.sqlite"
if command -v sqlite3 >/dev/null; then
    sqlite3 "$work/run.dtr.sqlite" 'PRAGMA user_version = 9'
    expect 4 "use a newer dtrscope" info "$work/run.dtr.sqlite"
    sqlite3 "$work/other.sqlite" 'CREATE TABLE t (x)'
    expect 1 "none of dtrscope's" info "$work/other.sqlite"
fi

# What cannot be the file of a record is refused before the program starts, and nothing is left.
mkdir "$work/place"
for force in "" --force; do
    expect 1 "is a directory; give a file in it" record $force -o "$work/place" -- touch "$work/ran"
    expect 1 "is a directory; give a file in it" record $force -o "$work/place/" -- touch "$work/ran"
    expect 1 "give another place with -o" record $force -o /proc/x -- touch "$work/ran"
    expect 1 "give another place with -o" record $force -o /proc/%p.x -- touch "$work/ran"
    expect 1 "cannot write into $work/none" record $force -o "$work/none/x" -- touch "$work/ran"
done
mkfifo "$work/pipe"
expect 1 "is no regular file" record --force -o "$work/pipe" -- touch "$work/ran"
expect 1 "is no regular file" sim "$log" --budget 80% --force --record "$work/pipe"
expect 1 "is a directory" sim "$log" --budget 80% --force --record "$work/place"
expect 1 "exists" record -o "$work/run.dtr.sqlite" -- touch "$work/ran"
expect 1 "nothing was recorded" record -o "$work/place/new.dtr.sqlite" -- true
if [ -e "$work/ran" ] || [ ! -p "$work/pipe" ] || [ -n "$(ls "$work/place")" ]; then
    echo "a refused record left: $(ls "$work" "$work/place")"
    failures=$((failures + 1))
fi

[ $failures -eq 0 ] || exit 1
echo "all refused as they should be"
