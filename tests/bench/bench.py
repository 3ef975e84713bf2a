"""The measurements behind every claim about speed and memory.

Prints a table and writes JSON.  Ratios are taken within this one run, on this machine: against the
`scan` search, against a run without recording, and against the time the published simulator took
(464 s for 700 runs with the class, local and plain heuristics; a constant, measured elsewhere).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PUBLISHED_SECONDS, PUBLISHED_RUNS = 464.0, 700
CHEAP = ["dtr-eq", "dtr-local", "lru", "size", "eq", "eq-size", "eq-stale", "local", "local-size",
         "local-stale", "none-size-stale", "none-stale"]
EXACT = ["dtr", "msps", "dtr-nbhd-stale", "e", "e-size", "e-stale"]
BUDGETS = "10%..100%:10%"

parser = argparse.ArgumentParser()
parser.add_argument("--build", type=pathlib.Path, required=True)
parser.add_argument("--output", type=pathlib.Path, required=True)
parser.add_argument("--quick", action="store_true", help="smaller sizes, for a look")
options = parser.parse_args()
tool = options.build / "dtrscope"
results = {"machine": {"cores": os.cpu_count()}}


def timed(command, **more):
    begin = time.monotonic()
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True,
                          **more)
    return time.monotonic() - begin, done.stdout


def title(text):
    print(f"\n{text}", flush=True)


def published_evaluation():
    title("published evaluation: 8 logs x 10 budgets, all deterministic heuristics")
    shared = pathlib.Path(os.environ.get("DTRSCOPE_SHARED", "../shared"))
    logs = sorted((shared / "traces").glob("*.log.xz"))
    if len(logs) != 8:
        print(f"  skipped: the eight logs are not in {shared}/traces (set DTRSCOPE_SHARED)")
        return {"skipped": True}
    rows = []
    # Loading is timed apart: one budget that is met at once.
    load, _ = timed([tool, "sweep", *logs, "--heuristics", "size", "--budgets", "1000%"])
    for heuristic in CHEAP + EXACT:
        seconds, _ = timed([tool, "sweep", *logs, "--heuristics", heuristic, "--budgets", BUDGETS])
        rows.append({"heuristic": heuristic, "seconds": seconds, "simulating": seconds - load,
                     "runs": 80})
        print(f"  {heuristic:16} {seconds:7.2f} s, {seconds - load:7.2f} s of it simulating")
    cheap = sum(row["simulating"] for row in rows if row["heuristic"] in CHEAP)
    runs = 80 * len(CHEAP)
    ratio = (PUBLISHED_SECONDS / PUBLISHED_RUNS) / (cheap / runs)
    print(f"  class, local and plain heuristics: {runs} runs in {cheap:.2f} s, "
          f"{1000 * cheap / runs:.2f} ms a run; the published simulator needed "
          f"{1000 * PUBLISHED_SECONDS / PUBLISHED_RUNS:.0f} ms: {ratio:.0f} times faster")
    return {"load_seconds": load, "rows": rows, "cheap_ms_per_run": 1000 * cheap / runs,
            "times_faster_than_published": ratio}


def eviction():
    title("time per eviction, ns (index against scan)")
    print(f"  {'heuristic':12} {'candidates':>10} {'index':>10} {'scan':>12} {'ratio':>8}")
    rows = []
    for heuristic in ["dtr-local", "dtr-eq", "dtr", "lru", "size"]:
        for exponent in range(3, 6 if options.quick else 7):
            n = 10 ** exponent
            row = {"heuristic": heuristic, "candidates": n}
            for search, rounds in (("index", max(2000, n // 50)), ("scan", max(5, 2_000_000 // n))):
                _, out = timed([options.build / "tests/bench/bench_evict", heuristic, search, n,
                                rounds])
                row[search] = float(out)
            rows.append(row)
            print(f"  {heuristic:12} {n:10} {row['index']:10.0f} {row['scan']:12.0f} "
                  f"{row['scan'] / max(row['index'], 1):8.1f}", flush=True)
    return rows


def chain():
    title("straight chain of theorem 3.1, budget 2 sqrt(N): replays / N")
    limits = {"dtr-eq": 6, "dtr": 4, "msps": 4, "dtr-local": 4, "lru": 4, "size": 4}
    if options.quick:
        limits = {name: min(top, 4) for name, top in limits.items()}
    rows = []
    for heuristic, top in limits.items():
        cells = []
        for exponent in range(2, top + 1):
            n = 10 ** exponent
            seconds, out = timed([tool, "sim", "--chain", n, "--budget", "2sqrt", "--heuristic",
                                  heuristic, "--format", "json"])
            replays = json.loads(out)["rematerializations"] / n
            rows.append({"heuristic": heuristic, "n": n, "replays_per_n": replays,
                         "seconds": seconds})
            cells.append(f"10^{exponent}: {replays:.3f}")
        print(f"  {heuristic:10} " + "  ".join(cells), flush=True)
    return rows


def record_overhead():
    title("recording: charlm with and without, paired")
    charlm = options.build / "examples/charlm"
    if not charlm.exists():
        print("  skipped: charlm is not built")
        return {"skipped": True}
    steps = 5 if options.quick else 20
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "run.dtr.sqlite"
        plain = {key: value for key, value in os.environ.items() if not key.startswith("DTR_")}
        timed([tool, "record", "-o", file, "--", charlm, "--steps", "2"], env=plain)
        _, out = timed([tool, "stats", "--format", "json", file])
        budget = int(json.loads(out)["peak_bytes"] * 0.6)
        ratios = []
        for pair in range(3 if options.quick else 7):
            base = {**plain, "DTR_BUDGET": str(budget)}
            without, _ = timed([charlm, "--steps", steps], env=base)
            target = pathlib.Path(folder) / f"pair{pair}.dtr.sqlite"
            recorded, _ = timed([charlm, "--steps", steps], env={**base, "DTR_RECORD": str(target)})
            ratios.append(recorded / without)
    row = {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    print(f"  recorded / plain: median {row['median']:.3f} ({row['least']:.3f} to {row['most']:.3f})")
    return row


def memory():
    title("host memory of the runtime, bytes per tensor (operator, storage, two inputs)")
    rows = []
    for heuristic in ["lru", "dtr-local", "dtr-eq", "dtr"]:
        _, out = timed([options.build / "tests/bench/bench_memory", heuristic,
                        10_000 if options.quick else 1_000_000])
        rows.append({"heuristic": heuristic, "bytes": float(out)})
        print(f"  {heuristic:10} {float(out):8.0f}", flush=True)
    return rows


for name, part in {"published_evaluation": published_evaluation, "eviction": eviction,
                   "chain": chain, "record_overhead": record_overhead, "memory": memory}.items():
    results[name] = part()
options.output.write_text(json.dumps(results, indent=2) + "\n")
print(f"\nwritten to {options.output}", file=sys.stderr)
