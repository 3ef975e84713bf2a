"""The recipes of schema/recipes, on a recorded run and on a simulated one: `dtrscope query` and plain
sqlite3 with the extension give the same rows, and those of some are what a slow computation over all
rows gives."""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOOL, SOURCE, BUILD = (pathlib.Path(os.environ[f"DTRSCOPE_{name}"]) for name in ("BIN", "SOURCE", "BUILD"))
RECIPES = sorted((SOURCE / "schema/recipes").glob("*.sql"))


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True,
                          text=True).stdout


def query(file, *arguments):
    return json.loads(output(TOOL, "query", file, *arguments, "--format", "json"))


def plain(file, sql):
    text = subprocess.run(["sqlite3", "-json", "-cmd", f".load {BUILD}/dtrscope_sqlite", str(file)],
                          input=sql, check=True, capture_output=True, text=True).stdout
    return json.loads(text) if text.strip() else []


def same(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    return a == b


def same_rows(a, b):
    return len(a) == len(b) and all(
        x.keys() == y.keys() and all(same(x[key], y[key]) for key in x) for x, y in zip(a, b))


def rows(file, view):
    return query(file, f"SELECT * FROM {view} WHERE run = 1 ORDER BY seq")


# --- the slow way -------------------------------------------------------------------------------


def evicted_most(file):
    counts = collections.Counter(e["storage"] for e in rows(file, "eviction") if e["reason"] == 0)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:20]


def cost_by_operator(file):
    costs = collections.defaultdict(lambda: [0, 0, None, None])
    for o in rows(file, "operator_run"):
        entry, at = costs[o["name"]], o["replay"]
        entry[at] += 1
        entry[2 + at] = (entry[2 + at] or 0) + o["cost_ns"]
    return dict(costs)


def by_iteration(file):
    facts = sorted([(m["seq"], "mark", m) for m in rows(file, "mark") if m["mark"] == 0] +
                   [(o["seq"], "run", o) for o in rows(file, "operator_run")], key=lambda f: f[0])
    found = collections.OrderedDict()
    now = None
    for _, kind, fact in facts:
        if kind == "mark":
            now = fact["value"]
            found.setdefault(now, [0, 0])
        else:
            entry = found.setdefault(now, [0, 0])
            entry[fact["replay"]] += 1
    return [(step, first + again, again) for step, (first, again) in found.items()]


def thrash(file):
    changes = sorted([(e["seq"], e["storage"], e["ts_ns"], True) for e in rows(file, "eviction")
                      if e["reason"] == 0] +
                     [(a["seq"], a["storage"], a["ts_ns"], False) for a in rows(file, "allocation")])
    last, times = {}, collections.Counter()
    for _, storage, ts, evicted in changes:
        before = last.get(storage)
        if before and before[1] and not evicted and ts - before[0] <= 1_000_000:
            times[storage] += 1
        last[storage] = (ts, evicted)
    return sorted(times.items(), key=lambda item: (-item[1], item[0]))[:20]


def memory_over_time(file):
    samples = [(x["ts_ns"], x["in_use"]) for view in ("allocation", "freeing", "eviction")
               for x in rows(file, view)]
    t0 = min(ts for ts, _ in samples)
    width = max(1, (max(ts for ts, _ in samples) - t0) // 999)
    buckets = collections.defaultdict(list)
    for ts, in_use in samples:
        buckets[(ts - t0) // width].append(in_use)
    return [(b, min(v), max(v), len(v)) for b, v in sorted(buckets.items())]


def near_misses(file):
    candidates = collections.defaultdict(dict)
    for c in rows(file, "candidate"):
        candidates[c["decision"]][c["rank"]] = c
    close = [(c[1]["score"] / c[0]["score"] if c[0]["score"] else None, decision)
             for decision, c in candidates.items() if 1 in c]
    return [d for _, d in sorted(close, key=lambda x: (x[0] is not None, x[0] or 0, x[1]))][:20]


def check_slowly(file):
    def pairs(name, *keys):
        return [tuple(row[key] for key in keys) for row in query(file, "--recipe", name)]
    expect = {
        "evicted-most": (pairs("evicted-most", "storage", "evictions"), evicted_most(file)),
        "thrash": (pairs("thrash", "storage", "times"), thrash(file)),
        "by-iteration": (pairs("by-iteration", "iteration", "runs", "replays"), by_iteration(file)),
        "memory-over-time": (pairs("memory-over-time", "bucket", "least_bytes", "most_bytes",
                                   "changes"), memory_over_time(file)),
        "near-misses": ([d for (d,) in pairs("near-misses", "decision")], near_misses(file)),
        "cost-by-operator": ({row[0]: list(row[1:]) for row in
                              pairs("cost-by-operator", "name", "first_runs", "replays", "first_ns",
                                    "replay_ns")}, cost_by_operator(file)),
    }
    for name, (got, wanted) in expect.items():
        if got != wanted:
            sys.exit(f"{name} on {file.name}: {got[:5] if isinstance(got, list) else got}\n"
                     f"expected {wanted[:5] if isinstance(wanted, list) else wanted}")
        if not wanted and name != "thrash":
            sys.exit(f"{name} on {file.name} found nothing, so it shows nothing")


def check_reference(file):
    """schema/reference.md has every table and column, and no other."""
    documented, table = {}, None
    for line in (SOURCE / "schema/reference.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            table = documented.setdefault(line[3:], {})
        elif line.startswith("|") and cells[0] not in ("column", "---"):
            table[cells[0]] = (cells[1], cells[2])
    found = {name: {c["name"]: c for c in query(file, f"PRAGMA table_info({name})")}
             for name in [t["name"] for t in query(file, "SELECT name FROM sqlite_schema WHERE "
                                                         "type = 'table'")]}
    if documented.keys() != found.keys():
        sys.exit(f"schema/reference.md and the tables differ: {documented.keys() ^ found.keys()}")
    for name, columns in found.items():
        if columns.keys() != documented[name].keys():
            sys.exit(f"{name}: {columns.keys() ^ documented[name].keys()}")
        for column, info in columns.items():
            kind, meaning = documented[name][column]
            nullable = not info["notnull"] and not info["pk"]
            if not meaning or nullable != ("NULL" in kind) or (nullable and "NULL" not in meaning):
                sys.exit(f"schema/reference.md: {name}.{column} does not say what NULL means: {meaning}")


def main():
    if not shutil.which("sqlite3"):
        print("skipped: sqlite3 is not installed")
        sys.exit(77)
    if len(RECIPES) < 20:
        sys.exit(f"there are {len(RECIPES)} recipes")
    listed = [line.split()[0] for line in output(TOOL, "query", "--list").splitlines()]
    if listed != [file.stem for file in RECIPES]:
        sys.exit(f"--list shows {listed}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        live, sim, sweep = folder / "live.dtr.sqlite", folder / "sim.dtr.sqlite", folder / "sweep.dtr.sqlite"
        log = SOURCE / "tests/data/random/rnd5.log"
        output(TOOL, "record", "-o", live, "--budget", "22MiB", "--stacks", "4", "--",
               BUILD / "examples/charlm", "--steps", "3")
        output(TOOL, "sim", log, "--budget", "60%", "-e", "dtr-eq", "-o", sim)
        output(TOOL, "sweep", log, "--budgets", "60%,100%", "--heuristics", "dtr-eq,lru", "-o", sweep)
        answered = set()
        for file in (live, sim, sweep):
            for recipe in RECIPES:
                ours = query(file, "--recipe", recipe.stem)
                if not same_rows(ours, plain(file, recipe.read_text())):
                    sys.exit(f"{recipe.stem} on {file.name} differs in plain sqlite3")
                if ours:
                    answered.add(recipe.stem)
        check_slowly(live)
        check_reference(live)
        print(f"{len(RECIPES)} recipes, {len(answered)} with rows; without: "
              f"{sorted(set(file.stem for file in RECIPES) - answered)}")


main()
