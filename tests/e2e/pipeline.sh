#!/usr/bin/env bash
# One path, end to end: train under a budget, record, read the file with other programs, replay it.
# pipeline.sh DTRSCOPE CHARLM EXTENSION
set -euo pipefail
tool=$1 charlm=$2 extension=${3%.so}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAILED: $*" >&2; exit 1; }
field() { sed -n "s/.*\"$2\": \([0-9.]*\).*/\1/p" "$1" | head -n 1; }
train=("$charlm" --steps 4 --layers 2 --dim 32 --context 32 --batch 4 --print-hash)

# Without a budget: the peak, and the hash of losses and parameters.
"$tool" record -o free.dtr.sqlite -- "${train[@]}" >free.out 2>free.err
"$tool" stats --format json free.dtr.sqlite >free.json
peak=$(field free.json peak_bytes)
[ "$peak" -gt 0 ] || fail "no peak"
[ "$(field free.json evictions)" = 0 ] || fail "evictions without a budget"

# With one: same numbers, evictions, peak within the budget.
budget=$((peak * 65 / 100))
"$tool" record --budget $budget --heuristic dtr-eq --stacks 3 -o tight.dtr.sqlite -- "${train[@]}" \
    >tight.out 2>tight.err
"$tool" stats --format json tight.dtr.sqlite >tight.json
grep '^hash' free.out >a && grep '^hash' tight.out >b && cmp a b || fail "the numbers changed"
[ "$(field tight.json evictions)" -gt 0 ] || fail "no evictions under a budget"
[ "$(field tight.json peak_bytes)" -le $budget ] || fail "the peak is above the budget"

# The simulator, given the recorded run, takes the decisions of the live run.
"$tool" sim tight.dtr.sqlite --heuristic dtr-eq --budget $budget --format json >sim.json
for key in evictions; do
    [ "$(field sim.json $key)" = "$(field tight.json $key)" ] ||
        fail "$key: simulated $(field sim.json $key), live $(field tight.json $key)"
done
[ "$(field sim.json rematerializations)" = "$(field tight.json replays)" ] || fail "replays differ"
[ "$(field sim.json peak_bytes)" = "$(field tight.json peak_bytes)" ] || fail "peaks differ"

# Another program reads the facts: bytes in use follow from allocations, evictions and frees.
sqlite3 tight.dtr.sqlite ".load $extension" "
    SELECT seq, bytes, in_use FROM allocation UNION ALL
    SELECT seq, -bytes, in_use FROM eviction UNION ALL
    SELECT seq, -bytes, in_use FROM freeing ORDER BY 1;" >bytes.txt
awk -F'|' '{ sum += $2; if (sum != $3) { print "seq " $1 ": " sum " is not " $3; exit 1 } }' \
    bytes.txt || fail "bytes in use"
[ "$(wc -l <bytes.txt)" -gt 100 ] || fail "too few memory events"
python3 - <<'PYTHON' || fail "python"
import sqlite3
db = sqlite3.connect("file:tight.dtr.sqlite?mode=ro", uri=True)
assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
assert db.execute("PRAGMA user_version").fetchone() == (2,)
result, evictions, exit_code = db.execute(
    "SELECT result, evictions, exit_code FROM run").fetchone()
assert (result, exit_code) == ("ok", 0) and evictions > 0
assert db.execute("SELECT count(*) FROM loss").fetchone() == (0,)
origin = dict(db.execute("SELECT name, origin FROM setting"))
assert origin["budget"] == "environment" and origin["seed"] == "default"
PYTHON

# The program's exit status goes through, and what it could not do is said.
set +e
"$tool" record -o none.dtr.sqlite -- sh -c 'exit 7' 2>none.err
[ $? = 7 ] || fail "exit status 7 was not passed on"
grep -q 'failed (exit code 7) and opened no session' none.err && ! grep -q PyTorch none.err ||
    fail "of a program that failed: $(cat none.err)"
"$tool" record -o none.dtr.sqlite -- ./not-there 2>none.err
[ $? = 127 ] && grep -q 'cannot run ./not-there' none.err && ! grep -q session none.err ||
    fail "of a program that is missing: $(cat none.err)"
"$tool" record -o none.dtr.sqlite -- true 2>none.err
[ $? = 1 ] && grep -q 'opened no session.*doctor' none.err ||
    fail "of a program without a session: $(cat none.err)"
"$tool" record -o none.dtr.sqlite -- python3 -c 'print(1)' >none.out 2>none.err
[ $? = 1 ] && grep -q 'no PyTorch operator ran in python3' none.err ||
    fail "of a script without PyTorch: $(cat none.err)"
for options in -I "-E -s" -uS "-X dev -I" "-Wignore -BES"; do
    "$tool" record -o none.dtr.sqlite -- python3 $options -c 'raise SystemExit(3)' 2>none.err
    [ $? = 3 ] && head -n 1 none.err | grep -q 'with -[IES] python3 does not find dtrscope' ||
        fail "python3 $options: $(cat none.err)"
done
for options in -s "-X I" "-W ignore::ImportWarning" -B; do
    "$tool" record -o none.dtr.sqlite -- python3 $options -c 'raise SystemExit(3)' -I 2>none.err
    [ $? = 3 ] && ! grep -q 'does not find' none.err || fail "python3 $options: $(cat none.err)"
done
"$tool" record -o seven.dtr.sqlite -- sh -c '"$@" >/dev/null; exit 7' sh "${train[@]}" 2>seven.err
[ $? = 7 ] && grep -q 'run 1 ok.*exit code 7' seven.err || fail "summary: $(cat seven.err)"
"$tool" info seven.dtr.sqlite | grep -Eq '^  exit code +7$' || fail "info without the exit code"
"$tool" record -o tight.dtr.sqlite -- "${train[@]}" 2>exists.err
[ $? = 1 ] && grep -q 'exists' exists.err || fail "an existing file was not refused"
"$tool" record --budget 1000 -o oom.dtr.sqlite -- "${train[@]}" >oom.out 2>oom.err
[ $? = 1 ] || fail "a budget of 1000 bytes"
"$tool" info oom.dtr.sqlite | grep -q 'out_of_memory' || fail "the file does not say out of memory"
set -e

# A killed program leaves a file that opens and says so.
set +e
"$tool" record -o killed.dtr.sqlite -- sh -c \
    "'$charlm' --steps 100000 >/dev/null & sleep 2.5; kill -9 \$!; wait \$!" 2>killed.err
set -e
"$tool" info killed.dtr.sqlite | grep -q 'killed' || fail "the file does not say killed"
[ "$("$tool" info killed.dtr.sqlite | awk '$1 == "operator_run" {print $2}')" -gt 0 ] ||
    fail "nothing is left of the killed run"

# A live program's constants come and go: their sum may be above the peak, and is said to be a sum.
line() { printf '{"INSTRUCTION":"%s",%s}\n' "$@"; }
{
    line ANNOTATE '"ANNOTATION":"START"'
    line ANNOTATE '"ANNOTATION":"LIVE"'
    for batch in 1 2 3; do
        line CONSTANT "\"NAME\":\"x$batch\""
        line MEMORY "\"NAME\":\"x$batch\",\"MEMORY\":\"1000\""
        line CALL "\"NAME\":\"sum\",\"ARGS\":[\"x$batch\"],\"RESULT\":[\"y$batch\"],\"TIME\":\"1\""
        line MEMORY "\"NAME\":\"y$batch\",\"MEMORY\":\"4\""
        line ALIAS "\"NAME\":\"y$batch\",\"ALIAS\":\"-1\""
        line RELEASE "\"NAME\":\"y$batch\""
        line RELEASE "\"NAME\":\"x$batch\""
    done
} >batches.log
"$tool" sim batches.log >batches.out
grep -Eq '^peak .*\(1004\)$' batches.out && grep -Eq '^constants ever made .*\(3000\)$' batches.out ||
    fail "the constants of batches: $(cat batches.out)"

# A sweep over the recorded run goes on where it stopped.
"$tool" sweep tight.dtr.sqlite --heuristics dtr-eq,lru --budgets 60%,100% -o s.dtr.sqlite >s1.out
"$tool" sweep tight.dtr.sqlite --heuristics dtr-eq,lru --budgets 60%,100% -o s.dtr.sqlite >s2.out
cmp s1.out s2.out || fail "a repeated sweep prints something else"
[ "$(sqlite3 s.dtr.sqlite 'SELECT count(*) FROM run')" = 4 ] || fail "a repeated sweep added runs"
echo "all of it works"
