#!/usr/bin/env python3
"""Exports for viewers, read back by other programs and compared with the events row by row.

usage: export_viewers.py DTRSCOPE MAKE CHARLM MLP EXTENSION SOURCE

The reference is what the sqlite3 shell reads through the extension, not another export.  Exit 77,
with the reason, where something is missing.
"""

import collections
import decimal
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOOL, MAKE, CHARLM, MLP, EXTENSION, SOURCE = map(os.path.abspath, sys.argv[1:7])
NODE_HELPER = os.path.join(SOURCE, "tests/e2e/export_viewers.mjs")
EXACT = 2**53
# An extension built with a sanitizer needs its runtime in the shell that loads it.
SHELL = dict(os.environ)
if SHELL.get("SANITIZER_RUNTIME"):
    SHELL.update(LD_PRELOAD=SHELL["SANITIZER_RUNTIME"], ASAN_OPTIONS="detect_leaks=0")
ITERATION, FORWARD, BACKWARD, OPTIMIZER, BEGIN, END, _, STOP = range(8)
PHASES = {FORWARD: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer"}
REASONS = ["budget", "eager", "banish", "request", "mutation"]
FIELDS = {
    "operator_run": "execution op dur_ns cost_ns replay target depth cause chain in_use",
    "chain": "chain tensor dur_ns runs cost_ns max_depth cause",
    "eviction": "storage bytes in_use reason decision",
    "out_of_memory": "op needed in_use budget operator_bytes overshoot",
}


def check(condition, *what):
    if not condition:
        sys.exit(f"FAILED: {' '.join(map(str, what))}")


def same(got, wanted, what):
    check(len(got) == len(wanted), what, f"{len(got)} instead of {len(wanted)}")
    for i, (a, b) in enumerate(zip(got, wanted)):
        check(a == b, what, f"number {i}:\n got    {a}\n wanted {b}")


def call(*command, fails=False):
    done = subprocess.run(command, capture_output=True)
    check((done.returncode != 0) == fails, command, "exit", done.returncode, done.stderr.decode())
    return done.stderr.decode()


def export(path, form, *options):
    out = f"{path}.{form}"
    call(TOOL, "export", path, "--format", form, "-o", out, "--force", *options)
    return out


# --- the reference ------------------------------------------------------------------------------


def clean(text):
    """One U+FFFD for each byte that is no UTF-8."""
    return re.sub("[\udc80-\udcff]", "\ufffd", text)


class Events:
    """The events of the first run by kind, times from its base time; those that `keep` keeps."""

    def __init__(self, path, keep=lambda row: True):
        self.path = path
        self.base = self.query("SELECT base_ts_ns FROM run")[0]["base_ts_ns"]
        self.rows = {}
        for kind in ("operator_run", "chain", "allocation", "freeing", "eviction", "candidate",
                     "budget", "mark", "out_of_memory"):
            rows = self.query(f"SELECT * FROM {kind} WHERE run = 1 ORDER BY seq")
            for row in rows:
                row["ts"] = row["ts_ns"] - self.base
                row["end"] = row["ts"] + row.get("dur_ns", 0)
                row["text"] = row.get("name") or ""
            self.rows[kind] = [row for row in rows if keep(row)]
        self.last = max(row["end"] for rows in self.rows.values() for row in rows)

    def query(self, sql):
        done = subprocess.run(["sqlite3", "-json", self.path, f".load {EXTENSION}", sql],
                              capture_output=True, check=True, env=SHELL)
        return json.loads(clean(done.stdout.decode(errors="surrogateescape")) or "[]")

    def __getitem__(self, kind):
        return self.rows[kind]

    def in_use(self):
        rows = self["allocation"] + self["freeing"] + self["eviction"]
        return [(row["ts"], row["in_use"]) for row in sorted(rows, key=lambda row: row["seq"])]

    def evicted(self):
        total, out = 0, []
        for row in self["eviction"]:
            total += row["bytes"]
            out.append((row["ts"], total))
        return out

    def scores(self):
        return {row["decision"]: row["score"] for row in self["candidate"] if row["rank"] == 0}

    def args(self, kind, row):
        """What a viewer is told of the event: all of it but its name."""
        args = {name: row[name] for name in ["seq"] + FIELDS[kind].split()
                if row[name] is not None}
        if kind == "eviction":
            args["why"] = REASONS[row["reason"]] if row["reason"] < len(REASONS) else "?"
            if row["decision"] in self.scores():
                args["score"] = self.scores()[row["decision"]]
        return args

    def edges(self):
        """(lane, time, begins, name) of iterations, phases and ranges."""
        out, opened, ranges, last = [], {}, [], -(2**63)

        def begin(lane, name):
            out.append((lane, last, True, name))
            opened[lane] = name

        def close(lane):
            if lane in opened:
                out.append((lane, last, False, opened.pop(lane)))

        for row in self["mark"]:
            last, mark = max(last, row["ts"]), row["mark"]
            if mark == ITERATION or mark == STOP:
                close("phases")
                close("iterations")
            if mark == ITERATION:
                value = row["value"]
                begin("iterations", "iteration" if value is None else f"iteration {value}")
            elif mark in PHASES:
                close("phases")
                begin("phases", PHASES[mark])
            elif mark == BEGIN:
                out.append(("ranges", last, True, row["text"]))
                ranges.append(row["text"])
            elif mark == END and ranges:
                out.append(("ranges", last, False, ranges.pop()))
        last = max(last, self.last)
        out += [("ranges", last, False, name) for name in reversed(ranges)]
        close("phases")
        close("iterations")
        return out


def by_lane(edges):
    lanes = collections.defaultdict(list)
    for lane, ts, begins, name in edges:
        lanes[lane].append((ts, name if begins else None))
    return dict(lanes)


def check_lane(lane, slices):
    """(begin, end) in the order of the file: none begins before the last one ended."""
    last = -math.inf
    for begin, end in slices:
        check(last <= begin <= end, lane, f"a slice from {begin} to {end} after one up to {last}")
        last = end


def strict(text, **options):
    def pairs(items):
        keys = [key for key, _ in items]
        check(len(keys) == len(set(keys)), "a key twice", keys)
        return dict(items)

    def integer(digits):
        check(abs(int(digits)) < EXACT, "an integer that a double does not hold", digits)
        return int(digits)

    def constant(name):
        check(False, "no JSON:", name)

    return json.loads(text, object_pairs_hook=pairs, parse_int=integer, parse_constant=constant,
                      **options)


def read(path):
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "strict")


# --- Chrome Trace Event JSON --------------------------------------------------------------------


def nanoseconds(number):
    value = decimal.Decimal(number) * 1000
    check(value == value.to_integral_value(), "a time with more than three decimals", number)
    return int(value)


def number_of(value):
    """Integers beyond 2^53 are texts; scores that are not finite, too."""
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        check(abs(int(value)) >= EXACT, "a text for a small integer", value)
        return int(value)
    return value


def same_args(got, wanted, what):
    score, true_score = got.pop("score", None), wanted.pop("score", None)
    check(got == wanted, what, f"\n got    {got}\n wanted {wanted}")
    check((score is None) == (true_score is None), what, "score", score, true_score)
    if score is not None and not isinstance(true_score, str):
        check(math.isclose(float(score), true_score, rel_tol=1e-15), what, score, true_score)


def check_chrome(events, *options):
    text = read(export(events.path, "chrome", *options))
    trace = strict(text, parse_float=decimal.Decimal)
    floats = json.loads(text)["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"]
             if e["ph"] == "M" and e["name"] == "thread_name"}
    slices, edges, counters = collections.defaultdict(list), [], collections.defaultdict(list)
    instants = []
    for e, rough in zip(trace["traceEvents"], floats):
        ts = nanoseconds(e["ts"])
        check(round(rough["ts"] * 1000) == ts, "a double loses nanoseconds", e)
        if e["ph"] == "X":
            dur = nanoseconds(e["dur"])
            check(round((rough["ts"] + rough["dur"]) * 1000) == ts + dur, "the end moves", e)
            args = {key: number_of(value) for key, value in e["args"].items()}
            slices[lanes[e["tid"]]].append((args["seq"], e["name"], e["cat"], ts, dur, args))
        elif e["ph"] in "BE":
            edges.append((lanes[e["tid"]], ts, e["ph"] == "B", e["name"]))
        elif e["ph"] == "C":
            counters[e["name"]].append((ts, e["args"]["bytes"]))
        elif e["ph"] == "i":
            instants.append((e["name"], ts, {k: number_of(v) for k, v in e["args"].items()}))
    for lane, found in slices.items():
        check_lane(lane, [(s[3], s[3] + s[4]) for s in found])
    for kind, group in (("operator_run", "operators"), ("chain", "rematerializations")):
        got = sorted((s for lane, found in slices.items() if lane.startswith(group)
                      for s in found), key=lambda s: s[0])
        wanted = [(row["seq"],
                   row["text"] if kind == "operator_run" else "rematerialization",
                   "rematerialization" if kind == "chain" else
                   "replay" if row["replay"] else "first run",
                   row["ts"], row["dur_ns"], events.args(kind, row)) for row in events[kind]]
        same(got, wanted, f"chrome: {kind}")
    same(edges, events.edges(), "chrome: edges")
    same(counters["bytes in use"], events.in_use(), "chrome: bytes in use")
    same(counters["evicted bytes (total)"], events.evicted(), "chrome: evicted bytes")
    same(counters["budget"], [(row["ts"], row["budget"]) for row in events["budget"]
                              if row["budget"] is not None], "chrome: budget")
    check_instants(events, instants, "chrome")
    return trace, slices


def check_instants(events, instants, what):
    for kind, name in (("eviction", "eviction"), ("out_of_memory", "out of memory")):
        got = [(ts, args) for found, ts, args in instants if found == name]
        check(len(got) == len(events[kind]), what, name, len(got), len(events[kind]))
        for (ts, args), row in zip(got, events[kind]):
            check(ts == row["ts"], what, name, ts, row)
            same_args(args, events.args(kind, row), f"{what}: {name}")


def check_metadata(trace, events):
    run = events.query("SELECT * FROM run")[0]
    other = trace["otherData"]
    check(other["tool"].startswith("dtrscope "), other)
    wanted = {"run": run["uuid"], "heuristic": run["heuristic"], "clock": run["clock"],
              "budget_bytes": run["budget_bytes"], "result": run["result"],
              "lost": {row["reason"]: row["count"] for row in events.query("SELECT * FROM loss")}}
    for key, value in wanted.items():
        check(other[key] == value, "metadata", key, other[key], value)
    check(number_of(other["base_ts_ns"]) == run["base_ts_ns"], "metadata: base time")


# --- Perfetto's format ---------------------------------------------------------------------------


def node(what, path):
    done = subprocess.run(["node", NODE_HELPER, SOURCE, what, path], capture_output=True)
    if done.returncode == 77:
        print("skipped:", done.stdout.decode().strip())
        sys.exit(77)
    check(done.returncode == 0, what, done.stderr.decode())
    return done.stdout.decode()


def annotations(event):
    out = {}
    for note in event["debug_annotations"]:
        check(note["name"] not in out, "an annotation twice", event)
        if "int_value" in note:
            out[note["name"]] = int(note["int_value"])
        else:
            out[note["name"]] = note.get("double_value", note.get("string_value"))
    return out


class Track:
    """Begins and ends of one track in the order that trace_processor sorts them into."""

    def __init__(self, name):
        self.name, self.events = name, []

    def slices(self):
        open_slices, out = [], []
        for ts, _, event in sorted(self.events, key=lambda e: e[:2]):
            if event["type"] == "TYPE_SLICE_BEGIN":
                open_slices.append((ts, event))
            else:
                check(open_slices, self.name, "an end without a begin at", ts)
                begin, opened = open_slices.pop()
                check(not open_slices, self.name, "a slice in another")
                out.append((begin, ts, opened))
        check(not open_slices, self.name, "a begin without an end")
        return out


def read_packets(events, *options):
    packets = [strict(line) for line in
               node("perfetto", export(events.path, "perfetto", *options)).splitlines()]
    check(packets[0]["first_packet_on_sequence"] and packets[0]["sequence_flags"] == 1, packets[0])
    check(all(p["trusted_packet_sequence_id"] == 1 for p in packets), "sequence ids")
    tracks, process = {}, None
    for place, packet in enumerate(packets):
        described, event = packet.get("track_descriptor"), packet.get("track_event")
        if described and "process" in described:
            process = described["uuid"]
        elif described:
            check(described["parent_uuid"] == process, "a track without its process", described)
            check(described["uuid"] not in tracks, "a track twice", described)
            tracks[described["uuid"]] = Track(described["name"])
            tracks[described["uuid"]].counter = described.get("counter")
        elif event:
            check(event["track_uuid"] in tracks, "a track that was not described", event)
            tracks[event["track_uuid"]].events.append((int(packet["timestamp"]), place, event))
    return packets, tracks.values()


def check_perfetto(events, *options):
    packets, tracks = read_packets(events, *options)
    slices, edges, instants = collections.defaultdict(list), {}, []
    counters = collections.defaultdict(list)
    for track in tracks:
        if track.counter:
            check(track.counter["unit"] == "UNIT_SIZE_BYTES", track.name)
            counters[track.name] = [(ts, int(e["counter_value"])) for ts, _, e in track.events]
        elif track.name in ("iterations", "phases", "ranges"):
            edges[track.name] = [(ts, e.get("name") if e["type"] == "TYPE_SLICE_BEGIN" else None)
                                 for ts, _, e in track.events]
        elif track.name == "evictions":
            instants = [(e["name"], ts, annotations(e)) for ts, _, e in track.events]
        else:
            found = track.slices()
            check_lane(track.name, [(begin, end) for begin, end, _ in found])
            slices[track.name.rstrip(" 0123456789")] += found
    for kind, group in (("operator_run", "operators"), ("chain", "rematerializations")):
        got = sorted(((e["name"], e["categories"][0], begin, end - begin, annotations(e),
                       [int(flow) for flow in e["flow_ids"]]) for begin, end, e in slices[group]),
                     key=lambda s: s[4]["seq"])
        wanted = [(row["text"] if kind == "operator_run" else "rematerialization",
                   "rematerialization" if kind == "chain" else
                   "replay" if row["replay"] else "first run",
                   row["ts"], row["dur_ns"], events.args(kind, row),
                   [] if row["chain"] is None else [row["chain"] + 1]) for row in events[kind]]
        same(got, wanted, f"perfetto: {kind}")
    check(edges == by_lane(events.edges()), "perfetto: edges")
    same(counters["bytes in use"], events.in_use(), "perfetto: bytes in use")
    same(counters["evicted bytes (total)"], events.evicted(), "perfetto: evicted bytes")
    check_instants(events, instants, "perfetto")
    told = next(args for name, _, args in instants if name == "run")
    check(told["run"] == events.query("SELECT uuid FROM run")[0]["uuid"], told)
    for row in events.query("SELECT * FROM loss"):
        check(told["lost: " + row["reason"]] == (row["count"] or "unknown"), told)
    check_clocks(packets[0]["clock_snapshot"]["clocks"], events)


def check_clocks(clocks, events):
    run = events.query("SELECT base_ts_ns + unix_offset_ns AS unix FROM run")[0]
    wanted = [(6, 0)] + ([(1, run["unix"])] if run["unix"] is not None else [])
    same([(clock["clock_id"], int(clock["timestamp"])) for clock in clocks], wanted, "clocks")


# --- speedscope ----------------------------------------------------------------------------------


def replay_profile(profile, frames):
    """The slices of a profile, (name, begin, end, name of the frame around it)."""
    stack, out, last = [], [], profile["startValue"]
    for event in profile["events"]:
        check(event["at"] >= last, "speedscope: back in time", event)
        last = event["at"]
        if event["type"] == "O":
            stack.append((event["frame"], event["at"]))
            continue
        frame, begin = stack.pop()
        check(frame == event["frame"], "speedscope: closes another frame", event)
        around = frames[stack[-1][0]] if stack else None
        out.append((frames[frame], begin, event["at"], around))
    check(not stack and last == profile["endValue"], "speedscope: frames left open")
    return out


def check_speedscope(events, *options):
    path = export(events.path, "speedscope", *options)
    node("speedscope", path)
    trace = strict(read(path))
    frames = [frame["name"] for frame in trace["shared"]["frames"]]
    for replay, name in ((0, "first runs"), (1, "replays")):
        got = [s for profile in trace["profiles"] if profile["name"].startswith(name)
               for s in replay_profile(profile, frames)]
        runs = [s[:3] for s in got if not (s[0] == "rematerialization" and s[3] is None)]
        wanted = [(row["text"], row["ts"], row["end"]) for row in events["operator_run"]
                  if row["replay"] == replay]
        same(sorted(runs), sorted(wanted), f"speedscope: {name}")
        inside = sum(s[3] == "rematerialization" for s in got)
        chained = sum(row["chain"] is not None for row in events["operator_run"]
                      if row["replay"] == replay) if replay else 0
        check(inside == chained, "speedscope: runs in rematerializations", inside, chained)


# --- operator logs --------------------------------------------------------------------------------


def simulate(path, *options):
    done = subprocess.run([TOOL, "sim", path, "--format", "json", *options], capture_output=True)
    check(done.returncode in (0, 1), path, options, done.stderr.decode())
    return done.returncode, done.stdout, re.sub(re.escape(path), "", done.stderr.decode())


def check_simrd(path):
    log = export(path, "simrd")
    lines = [strict(line) for line in read(log).splitlines()]
    check(lines[0] == {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}, lines[0])
    bound = [line[key] for line in lines for key in ("DST",) if key in line]
    bound += [name for line in lines for name in line.get("RESULT", [])]
    bound += [line["NAME"] for line in lines if line["INSTRUCTION"] == "CONSTANT"]
    check(len(bound) == len(set(bound)), "simrd: a name is bound twice")
    evictions = 0
    for heuristic in ("dtr-eq", "dtr", "lru"):
        for budget in ("none", "70%", "45%"):
            for policy in ("eager", "ignore", "banish"):
                options = ["-e", heuristic, "-b", budget, "--policy", policy]
                live, replayed = simulate(path, *options), simulate(log, *options)
                check(live == replayed, path, options, live, replayed)
                evictions += int(json.loads(live[1])["evictions"]) if live[1] else 0
    check(evictions > 0, path, "no simulation evicted anything")
    # What it records is the same run: the log of the replay is the log.
    again = f"{path}.again.dtr.sqlite"
    call(TOOL, "sim", log, "-b", "none", "-o", again, "--force")
    steps = [line for line in lines if line["INSTRUCTION"] != "ANNOTATE"]
    repeated = [strict(line) for line in read(export(again, "simrd")).splitlines()]
    repeated = [line for line in repeated if line["INSTRUCTION"] != "ANNOTATE"]
    same(renumbered(repeated), renumbered(steps), "simrd: recorded again")


def renumbered(lines):
    """Tensors by the order in which they come."""
    names = {}

    def number(match):
        return names.setdefault(match.group(0), f"t{len(names)}")

    return [re.sub(r'(?<=")x\d+(\.\d+)?(?=")', number, json.dumps(line)) for line in lines]


# --- all of it ------------------------------------------------------------------------------------


def check_views(path, keep=lambda row: True, options=()):
    events = Events(path, keep)
    trace, slices = check_chrome(events, *options)
    check_metadata(trace, events)
    check_perfetto(events, *options)
    check_speedscope(events, *options)
    print(f"{os.path.basename(path)} {' '.join(options)}: {len(events['operator_run'])} runs, "
          f"{len(events['chain'])} rematerializations, {len(events['eviction'])} evictions")
    return events, slices


def check_hostile(path):
    call(MAKE, path, "30000")
    events, slices = check_views(path)
    check("operators 2" in slices, "no runs overlapped")
    names = {s[1] for found in slices.values() for s in found}
    for name in ('quote " and \\ backslash', "line\nfeed and tab\t and \x01\x1f\x7f",
                 "bad \ufffd\ufffd\ufffd bytes", "cut \ufffd\ufffd", "\u20ac and \U0001f600", ""):
        check(name in names, "a name is missing:", repr(name))
    touching = sum(a["end"] == b["ts"] for a, b in
                   zip(events["operator_run"], events["operator_run"][1:]))
    check(touching > 100, "few slices touch:", touching)
    why = call(TOOL, "export", path, "--format", "simrd", "-o", path + ".log", fails=True)
    check("lost" in why and "full" in why and not os.path.exists(path + ".log"), why)


def check_extremes(path):
    """Numbers that are hard on arithmetic: a file that parses, or a sentence and no file."""
    made, why = 0, ""
    for seed in range(1, 41):
        call(MAKE, path, str(5 * (seed % 8) + 1), str(seed))
        for form in ("chrome", "perfetto", "speedscope", "simrd"):
            out = f"{path}.{form}"
            done = subprocess.run([TOOL, "export", path, "--format", form, "-o", out, "--force"],
                                  capture_output=True)
            check(done.returncode in (0, 1), form, seed, done.returncode, done.stderr.decode())
            if done.returncode:
                why += done.stderr.decode()
                check(path in done.stderr.decode() and not os.path.exists(out), form, seed, done)
                continue
            made += 1
            if form in ("chrome", "speedscope"):
                strict(read(out))
            os.remove(out)
    check(made > 10 and "104 days" in why and "lasts" in why, "extremes:", made, why)


def main():
    for program in ("sqlite3", "node"):
        if not shutil.which(program):
            print(f"skipped: {program} is missing")
            sys.exit(77)
    charlm, mlp, random = "charlm.dtr.sqlite", "mlp.dtr.sqlite", "random.dtr.sqlite"
    call(TOOL, "record", "--budget", "22MiB", "-o", charlm, "--", CHARLM, "--steps", "2")
    call(TOOL, "record", "--budget", "3MiB", "-o", mlp, "--", MLP)
    call(TOOL, "sim", f"{SOURCE}/tests/data/random/rnd5.log", "-b", "60%", "-e", "dtr-eq", "-o",
         random)
    events, _ = check_views(charlm)
    check(events["eviction"] and events["chain"] and events.scores(), "a dull run")
    check_views(random)
    half = events.last // 2
    check_views(charlm, lambda row: 1000 <= row["ts"] < half,
                ("--start", "1us", "--end", f"{half}ns"))
    check_hostile("hostile.dtr.sqlite")
    check_extremes("extreme.dtr.sqlite")
    for path in (charlm, mlp, random):
        check_simrd(path)
    why = call(TOOL, "export", charlm, "--format", "simrd", "--steps", "1:", "-o", "x", fails=True)
    check("whole run" in why, why)


if __name__ == "__main__":
    work = tempfile.mkdtemp(prefix="dtrscope-viewers-")
    os.chdir(work)
    try:
        main()
    finally:
        os.chdir("/")
        shutil.rmtree(work)
    print("all of it works")
