"""The measurements behind every claim about speed and memory: prints tables and writes JSON.

Ratios are taken within this one run, on this machine: against the `scan` search, against a run
without recording.  The one constant from elsewhere is the published simulator's time: 464 s for the
700 runs that it finished with the class, local and plain heuristics on a machine with two cores.

What grows too fast to wait for is stopped at a limit and shown as such.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PUBLISHED_MS_PER_RUN = 464_000 / 700
CHEAP = ["dtr-eq", "dtr-local", "lru", "size", "eq", "eq-size", "eq-stale", "local", "local-size",
         "local-stale", "none-size-stale", "none-stale"]
EXACT = ["dtr", "msps", "dtr-nbhd-stale", "e", "e-size", "e-stale"]
BUDGETS = "10%..100%:10%"
N_BUDGETS = 10
LIMIT_S = 60


def timed(command, limit_s=LIMIT_S, **more):
    """Seconds and output; (None, None) when it was stopped at the limit."""
    begin = time.monotonic()
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=limit_s, **more)
    except subprocess.TimeoutExpired:
        return None, None
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))}\n{done.stderr}")
    return time.monotonic() - begin, done.stdout


def title(text):
    print(f"\n{text}", flush=True)


def published_evaluation(o):
    title("published evaluation: 8 logs x 10 budgets, all deterministic heuristics, all cores")
    logs = sorted((o.shared / "traces").glob("*.log.xz"))
    if len(logs) != 8:
        print(f"  skipped: the eight logs are not in {o.shared}/traces (set DTRSCOPE_SHARED)")
        return {"skipped": "no logs"}
    # Reading the logs costs the same for every heuristic; one run each that evicts nothing tells it.
    load, _ = timed([o.tool, "sweep", *logs, "--heuristics", "size", "--budgets", "1000%"])
    n_runs = len(logs) * N_BUDGETS
    rows = []
    for heuristic in CHEAP + EXACT:
        seconds, _ = timed([o.tool, "sweep", *logs, "--heuristics", heuristic, "--budgets", BUDGETS],
                           limit_s=300)
        rows.append({"heuristic": heuristic, "runs": n_runs, "seconds": seconds})
        print(f"  {heuristic:16} " + ("over 300 s" if seconds is None else
              f"{seconds:7.2f} s, {max(seconds - load, 0):7.2f} s without reading the logs, "
              f"{n_runs / seconds:6.0f} runs/s"), flush=True)
    cheap = [row["seconds"] for row in rows if row["heuristic"] in CHEAP]
    if None in cheap:
        return {"load_seconds": load, "rows": rows}
    ms = 1000 * (sum(cheap) - load * (len(cheap) - 1)) / (n_runs * len(cheap))
    print(f"  class, local and plain heuristics: {ms:.2f} ms a run, the published simulator "
          f"{PUBLISHED_MS_PER_RUN:.0f} ms: {PUBLISHED_MS_PER_RUN / ms:.0f} times faster")
    return {"load_seconds": load, "rows": rows, "ms_per_run": ms,
            "times_faster_than_published": PUBLISHED_MS_PER_RUN / ms}


def eviction(o):
    title("time of one eviction, ns")
    print(f"  {'heuristic':12} {'candidates':>10} {'index':>12} {'scan':>12} {'scan/index':>11}")
    rows = []
    for heuristic in ["dtr", "dtr-eq", "dtr-local", "msps", "lru", "size"]:
        for n in [10 ** e for e in range(3, 6 if o.quick else 7)]:
            row = {"heuristic": heuristic, "candidates": n}
            for search, rounds in (("index", max(2000, n // 50)), ("scan", max(5, 2_000_000 // n))):
                _, out = timed([o.bench / "bench_evict", heuristic, search, n, rounds])
                row[search + "_ns"] = out and float(out)
            rows.append(row)
            cells = [f"> {LIMIT_S} s" if row[key] is None else f"{row[key]:.0f}"
                     for key in ("index_ns", "scan_ns")]
            ratio = (f"{row['scan_ns'] / row['index_ns']:.1f}"
                     if row["index_ns"] and row["scan_ns"] else "-")
            print(f"  {heuristic:12} {n:10} {cells[0]:>12} {cells[1]:>12} {ratio:>11}", flush=True)
    return rows


def chain(o):
    title("straight chain of theorem 3.1 with a budget of 2 sqrt(N): replays / N")
    rows = []
    for heuristic in ["dtr", "dtr-eq", "dtr-local", "msps", "lru", "size"]:
        cells = []
        for exponent in range(2, 5 if o.quick else 7):
            n = 10 ** exponent
            seconds, out = timed([o.tool, "sim", "--chain", n, "--budget", "2sqrt", "--heuristic",
                                  heuristic, "--format", "json"],
                                 limit_s=3 * LIMIT_S if heuristic == "dtr-eq" else LIMIT_S)
            if seconds is None:
                cells.append(f"10^{exponent}: stopped")
                break
            replays = json.loads(out)["rematerializations"] / n
            rows.append({"heuristic": heuristic, "n": n, "replays_per_n": replays,
                         "seconds": seconds})
            cells.append(f"10^{exponent}: {replays:.2f}")
        print(f"  {heuristic:10} " + "  ".join(cells), flush=True)
    return rows


def record_overhead(o):
    title("recording: charlm under a budget with and without a recorder, pairs in alternating order")
    charlm = o.build / "examples/charlm"
    if not charlm.exists():
        print("  skipped: charlm is not built")
        return {"skipped": "no charlm"}
    plain = {key: value for key, value in os.environ.items() if not key.startswith("DTR_")}
    steps = "5" if o.quick else "20"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        first = folder / "first.dtr.sqlite"
        timed([o.tool, "record", "-o", first, "--", charlm, "--steps", "2"], env=plain)
        _, out = timed([o.tool, "stats", "--format", "json", first])
        plain["DTR_BUDGET"] = str(json.loads(out)["peak_bytes"] * 6 // 10)
        ratios = []
        for pair in range(3 if o.quick else 9):
            recording = {**plain, "DTR_RECORD": str(folder / f"{pair}.dtr.sqlite")}
            order = [plain, recording] if pair % 2 else [recording, plain]
            seconds = {id(env): timed([charlm, "--steps", steps], env=env, limit_s=600)[0]
                       for env in order}
            ratios.append(seconds[id(recording)] / seconds[id(plain)])
    row = {"pairs": len(ratios), "median": statistics.median(ratios), "least": min(ratios),
           "most": max(ratios)}
    print(f"  recorded / plain: median {row['median']:.3f}, {row['least']:.3f} to {row['most']:.3f} "
          f"in {row['pairs']} pairs")
    return row


def lttng(o, n, rounds):
    """The same events through LTTng-UST, or why not."""
    program = o.bench / "bench_lttng"
    if not program.exists() or not shutil.which("lttng") or not shutil.which("lttng-sessiond"):
        return "skipped: needs lttng-tools and liblttng-ust-dev"
    environment = {**os.environ, "LTTNG_UST_REGISTER_TIMEOUT": "5000"}
    environment.setdefault("HOME", "/root")
    with tempfile.TemporaryDirectory() as folder:
        def lttng_command(*arguments):
            return subprocess.run(["lttng", "-q", *arguments], env=environment,
                                  capture_output=True).returncode == 0
        subprocess.run(["lttng-sessiond", "--daemonize"], env=environment, capture_output=True)
        made = (lttng_command("create", "dtrbench", f"--output={folder}/trace") and
                lttng_command("enable-channel", "-u", "c", "--subbuf-size=4M", "--num-subbuf=4") and
                lttng_command("enable-event", "-u", "dtr_bench:*", "-c", "c") and
                lttng_command("start"))
        out = timed([program, n, rounds], env=environment)[1] if made else None
        lttng_command("destroy", "dtrbench")
    return [float(x) for x in out.split()] if out else "skipped: no session could be made"


def hot_path(o):
    title("recording one event on the program's thread, ns: least and median of the rounds")
    n, rounds = (200_000, 5) if o.quick else (2_000_000, 9)
    rows = {}
    for mode in ["clock-tsc", "clock-monotonic", "ring", "ring-tsc", "ring-monotonic", "mutex-tsc",
                 "mutex-monotonic", "sustained-ring-tsc", "sustained-mutex-tsc"]:
        _, out = timed([o.bench / "bench_record", mode, n, rounds])
        rows[mode] = None if out is None or "none" in out else [float(x) for x in out.split()]
        print(f"  {mode:22} " + ("-" if rows[mode] is None else
                                 f"{rows[mode][0]:8.1f} {rows[mode][1]:8.1f}"), flush=True)
    rows["lttng-ust"] = lttng(o, n, rounds)
    print(f"  {'lttng-ust':22} " + (rows["lttng-ust"] if isinstance(rows["lttng-ust"], str) else
                                    f"{rows['lttng-ust'][0]:8.1f} {rows['lttng-ust'][1]:8.1f}"))
    for clock in ("tsc", "monotonic"):
        ring, mutex = rows[f"ring-{clock}"], rows[f"mutex-{clock}"]
        if ring and mutex:
            ratios = [f"{ring[1] / rows['ring'][1]:.2f} times the ring without a clock",
                      f"{ring[1] / mutex[1]:.2f} times the locked queue"]
            if not isinstance(rows["lttng-ust"], str):
                ratios.append(f"{ring[1] / rows['lttng-ust'][1]:.2f} times LTTng-UST")
            print(f"  the ring with one {clock} time stamp: " + ", ".join(ratios))
    return rows


def operator_loop(o):
    title("a loop of operators, 8 events each: ns an operator on the program's thread (processor time)")
    rows = []
    plain = {key: value for key, value in os.environ.items() if not key.startswith("DTR_")}
    for spin in (1000, 10_000, 100_000):
        n = (200_000_000 if o.quick else 1_000_000_000) // spin // 2
        cells = {"plain": [], "recorded": []}
        with tempfile.TemporaryDirectory() as folder:
            for pair in range(3 if o.quick else 5):
                for kind in ("plain", "recorded") if pair % 2 else ("recorded", "plain"):
                    env = dict(plain)
                    if kind == "recorded":
                        env["DTR_RECORD"] = f"{folder}/{spin}-{pair}.dtr.sqlite"
                    _, out = timed([o.bench / "bench_loop", spin, n], env=env, limit_s=300)
                    cells[kind].append(float(out.split()[1]))
        row = {"spin_ns": spin, **{kind: statistics.median(cells[kind]) for kind in cells}}
        rows.append(row)
        print(f"  {spin:7} ns: {row['plain']:10.1f} plain, {row['recorded']:10.1f} recorded, "
              f"{100 * (row['recorded'] / row['plain'] - 1):5.1f} % more", flush=True)
    return rows


def ingest(o):
    title("the event store: writing with tiles, rows of SQLite for comparison, and windows of 8 tracks")
    program = o.bench / "bench_ingest"
    rows = []
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "ingest.dtr.sqlite"
        for n in [10 ** e for e in range(6, 8 if o.quick else 9)]:
            runs = [["make", n, path], ["write", n, path, "none"], ["query", 4000, path],
                    ["write", n, path, "zstd"], ["query", 4000, path]]
            runs += [["rows", n, path]] if n <= 10 ** 7 else []
            for run in runs:
                _, out = timed([program, *run], limit_s=900)
                row = json.loads(out)
                rows.append(row)
                if row["mode"] == "query":
                    print(f"  {row['events']:10} events: a window takes p50 "
                          f"{row['cpu_ms']['p50']:.2f} ms, p99 {row['cpu_ms']['p99']:.2f} ms of CPU "
                          f"(wall {row['wall_ms']['p50']:.2f}, {row['wall_ms']['p99']:.2f})")
                else:
                    print(f"  {n:10} events, {row['mode']:5}: "
                          f"{row['events_per_s'] / 1e6:6.2f} M/s, {row['cpu_ns']:6.1f} ns of CPU, "
                          f"{row['bytes_per_event']:5.1f} bytes an event", flush=True)
    return rows


def memory(o):
    title("host memory of the runtime: bytes per live tensor (one operator, storage and two inputs)")
    n = 10_000 if o.quick else 100_000
    rows = []
    for heuristic in ["size", "lru", "dtr-local", "msps", "dtr-eq", "dtr"]:
        _, out = timed([o.bench / "bench_memory", heuristic, n])
        rows.append({"heuristic": heuristic, "tensors": n, "bytes": out and float(out)})
        print(f"  {heuristic:10} " + (f"over {LIMIT_S} s" if out is None else f"{float(out):6.0f}"),
              flush=True)
    return rows


def torch(o):
    title("PyTorch without pressure: microseconds of an operator, milliseconds of a step; plain and with "
          "dtrscope in turn")
    script = pathlib.Path(__file__).parent / "bench_torch.py"
    for python in ("python3", "/usr/bin/python3"):
        environment = {**os.environ, "PYTHONPATH": str((o.build / "python").resolve())}
        done = subprocess.run([python, script, *(["--quick"] if o.quick else [])], env=environment,
                              capture_output=True, text=True)
        if done.returncode == 0:
            break
    else:
        print("  left out: " + (done.stderr.strip().splitlines() or ["no PyTorch"])[-1])
        return None
    results = json.loads(done.stdout)
    for what, rows in results.items():
        for name, row in rows.items() if isinstance(rows, dict) else []:
            unit, scale = ("us", 1e6) if row["plain_s"] < 1e-4 else ("ms", 1e3)
            print(f"  {what:15} {name:14} {row['plain_s'] * scale:8.2f} -> "
                  f"{row['with_s'] * scale:8.2f} {unit}, x {row['ratio']:.3f} "
                  f"(least {row['least_plain_s'] * scale:.2f} -> {row['least_with_s'] * scale:.2f})")
    return results


PARTS = {part.__name__: part for part in (published_evaluation, eviction, chain, hot_path,
                                          operator_loop, record_overhead, memory, torch,
                                          ingest)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a look")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be repeated")
    o = parser.parse_args()
    o.tool, o.bench = o.build / "dtrscope", o.build / "tests/bench"
    o.shared = pathlib.Path(os.environ.get("DTRSCOPE_SHARED") or "../shared")
    results = {"cores": os.cpu_count(), "quick": o.quick}
    for name in o.only or PARTS:
        results[name] = PARTS[name](o)
    o.output.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {o.output}")


main()
