"""Imports files that Python's pickle and json wrote, and compares what comes out with a model.

    import.py DTRSCOPE EXTENSION SOURCE

DTR_IMPORT_LARGE=MB also imports a snapshot of that size, and prints time and memory.
"""
import gzip
import json
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import time

TOOL, EXTENSION, SOURCE = sys.argv[1], sys.argv[2].removesuffix(".so"), pathlib.Path(sys.argv[3])
START_US = 1_700_000_000_000_000


def check(condition, *what):
    if not condition:
        raise AssertionError(*what)


def run_import(path, out, *options, code=0):
    done = subprocess.run([TOOL, "import", path, "-o", out, *options], capture_output=True,
                          text=True)
    check(done.returncode == code, path, done.returncode, done.stdout, done.stderr)
    check(code == 0 or not os.path.exists(out), "an output in spite of the error", path)
    leftovers = [name for name in os.listdir(os.path.dirname(out) or ".") if ".part" in name]
    check(not leftovers, leftovers)
    return done.stdout + done.stderr


def query(path, sql):
    """Rows as dicts, through the extension."""
    done = subprocess.run(["sqlite3", "-json", path, f".load {EXTENSION}", sql],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout or "[]")


# --- snapshots ------------------------------------------------------------------------------------

class Device:
    """A made-up allocator that logs its actions as PyTorch does, and what should come of them."""

    def __init__(self, rng, number, stacks, first_seen):
        self.rng, self.number, self.stacks, self.first_seen = rng, number, stacks, first_seen
        self.base = 0x7F00_0000_0000 + (number << 40)
        self.live, self.trace, self.log = {}, [], []
        self.now, self.next, self.reserved = START_US + number, self.base, 0
        self.recording = False

    def note(self, action, address, size, stack=None, address_key="addr"):
        if not self.recording:
            return
        self.now += self.rng.choice([0, 1, 1, 7])
        entry = {"action": action, address_key: address, "size": size, "stream": 0,
                 "time_us": self.now}
        if stack is not None:
            entry["frames"] = stack
        self.trace.append(entry)

    def allocate(self):
        size = self.rng.choice([1, 512, 1 << 20, 3 << 30])
        free = [a for a in range(self.base, self.next, 1 << 34) if a not in self.live]
        if free and self.rng.random() < 0.7:
            address = self.rng.choice(free)
        else:
            address, self.next = self.next, self.next + (1 << 34)
            self.reserved += 1 << 34
            self.note("segment_alloc", address, 1 << 34)
        stack = self.rng.choice(self.stacks) if self.rng.random() < 0.9 else None
        self.live[address] = size
        self.note("alloc", address, size, stack)
        if self.recording:
            names = [f"{f['name']} ({f['filename']}:{f['line']})" for f in stack or []]
            self.log.append(("alloc", self.now * 1000, address, size, names))

    def free(self):
        address = self.rng.choice(list(self.live))
        size = self.live.pop(address)
        self.note("free_requested", address, size)
        self.note("free_completed", address, size)
        if self.recording:
            self.log.append(("free", self.now * 1000, address, size, None))

    def out_of_memory(self):
        self.note("oom", 12345, 1 << 40, self.stacks[0], "device_free")
        self.log.append(("oom", self.now * 1000, 12345, 1 << 40, None))

    def act(self, n):
        for _ in range(n):
            roll = self.rng.random()
            if self.live and roll < 0.45:
                self.free()
            elif roll < 0.99 or not self.recording:
                self.allocate()
            else:
                self.out_of_memory()

    def segments(self):
        for address in range(self.base, self.next, 1 << 34):
            size = self.live.get(address)
            used = {"address": address, "size": max(size or 512, 512), "requested_size": size or 0,
                    "state": "active_allocated" if size else "inactive"}
            rest = {"address": address + used["size"], "size": (1 << 34) - used["size"],
                    "requested_size": 0, "state": "inactive"}
            yield {"device": self.number, "address": address, "total_size": 1 << 34, "stream": 0,
                   "segment_type": "large", "blocks": [used, rest]}


def make_snapshot(seed, n_before=40, n=400, devices=2):
    rng = random.Random(seed)
    frames = [{"filename": f"/src/ünit{i % 3}.py", "line": i, "name": f"f{i}"} for i in range(20)]
    stacks = [rng.sample(frames, rng.randrange(1, 8)) for _ in range(10)]
    made = []
    for number in range(devices):
        device = Device(rng, number, stacks, {})
        device.act(n_before)
        device.recording = True
        device.at_start = dict(device.live)
        device.act(n)
        made.append(device)
    snapshot = {"segments": [s for d in made for s in d.segments()],
                "device_traces": [d.trace for d in made] + [[]],
                "allocator_settings": {"expandable_segments": False, "threshold": 0.8,
                                       "roundup": {"1": 0}, "none": None, "pair": (1, (2, 3))}}
    return snapshot, made


def compare_device(path, run, device):
    before = query(path, f"""SELECT offset, bytes FROM allocation WHERE run = {run} AND storage <
                             {len(device.at_start)} ORDER BY seq""")
    check({r["offset"]: r["bytes"] for r in before} == device.at_start, "at the start", run)
    origin = {}
    frames = {r["frame"]: (r["parent"], r["name"])
              for r in query(path, f"SELECT * FROM frame WHERE run = {run}")}
    for row in query(path, f"""SELECT t.storage, o.frame FROM tensor t JOIN origin o
                               ON o.run = t.run AND o.op = t.op WHERE t.run = {run}"""):
        names, frame = [], row["frame"]
        while frame is not None:
            names.append(frames[frame][1])
            frame = frames[frame][0]
        origin[row["storage"]] = names
    rows = query(path, f"""
        SELECT seq, ts_ns, 'alloc' AS what, storage, bytes, in_use, offset FROM allocation
        WHERE run = {run} AND storage >= {len(device.at_start)} UNION ALL
        SELECT seq, ts_ns, 'free', storage, bytes, in_use, NULL FROM freeing WHERE run = {run}
        UNION ALL SELECT seq, ts_ns, 'oom', budget, needed, in_use, NULL FROM out_of_memory
        WHERE run = {run} ORDER BY 1""")
    check(len(rows) == len(device.log), "events", len(rows), len(device.log))
    in_use = sum(device.at_start.values())
    storages = {r["storage"]: r["offset"] for r in query(
        path, f"SELECT storage, offset FROM allocation WHERE run = {run}")}
    seen = set()
    for row, (what, ts, address, size, names) in zip(rows, device.log):
        in_use += {"alloc": size, "free": -size, "oom": 0}[what]
        check((row["what"], row["ts_ns"], row["bytes"], row["in_use"]) == (what, ts, size, in_use),
              row, what, ts, size, in_use)
        if what != "oom":
            check(storages[row["storage"]] == address, row, address)
        if what == "alloc":
            check(row["storage"] not in seen, "an id was used again", row)
            seen.add(row["storage"])
            check(origin.get(row["storage"], []) == names, row, origin.get(row["storage"]), names)
    reserved = query(path, f"SELECT value FROM mark WHERE run = {run} ORDER BY seq DESC LIMIT 1")
    check(not reserved or reserved[0]["value"] == device.reserved, reserved, device.reserved)
    facts = query(path, f"SELECT * FROM run WHERE id = {run}")[0]
    check((facts["kind"], facts["result"], facts["has_events"]) == ("import", "ok", 1), facts)
    check(facts["unix_offset_ns"] == 0 and facts["allocator_peak_bytes"] == device.reserved, facts)


def test_snapshots(work):
    for protocol in range(6):
        snapshot, devices = make_snapshot(protocol)
        path, out = f"{work}/s{protocol}.pickle", f"{work}/s{protocol}.dtr.sqlite"
        with (gzip.open if protocol == 3 else open)(path, "wb") as file:
            pickle.dump(snapshot, file, protocol=protocol)
        run_import(path, out)
        check(query(out, "SELECT * FROM loss") == [], "losses", protocol)
        for run, device in enumerate(devices, 1):
            compare_device(out, run, device)
        source = query(out, "SELECT DISTINCT source FROM run")
        check(source == [{"source": path}], source)


def test_nothing_runs(work):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {work}/ran",)

    for protocol in range(6):
        path = f"{work}/evil.pickle"
        with open(path, "wb") as file:
            pickle.dump({"device_traces": [[]], "segments": [Evil()]}, file, protocol=protocol)
        text = run_import(path, f"{work}/evil.dtr.sqlite", code=2)
        check("STACK_GLOBAL" in text if protocol >= 4 else "GLOBAL of posix.system" in text, text)
        check("byte" in text and path in text, text)
    check(not os.path.exists(f"{work}/ran"), "the pickle was executed")


def test_oddities(work):
    """Times that are missing, actions that are not known, addresses used twice."""
    trace = [{"action": "alloc", "addr": 16, "size": 8}, {"action": "alloc", "addr": 16, "size": 9},
             {"action": "free_completed", "addr": 16, "size": 9},
             {"action": "free_completed", "addr": 16, "size": 9}, {"action": "what", "addr": 1},
             {"action": "alloc", "addr": 1 << 80, "size": 1}, {"addr": 5}, {}, {"action": "oom"}]
    path, out = f"{work}/odd.pickle", f"{work}/odd.dtr.sqlite"
    with open(path, "wb") as file:
        pickle.dump({"device_traces": [trace], "other": [{}, []]}, file)
    run_import(path, out)
    rows = query(out, "SELECT count(*) AS n, sum(bytes) AS bytes FROM allocation")
    check(rows == [{"n": 2, "bytes": 17}], rows)
    lost = {r["reason"]: r["count"] for r in query(out, "SELECT reason, count FROM loss")}
    check(sorted(lost.values()) == [1, 1, 2, 3], lost)
    check(query(out, "SELECT clock FROM run") == [{"clock": "logical"}], "the clock")
    refused = subprocess.run([TOOL, "sim", out], capture_output=True, text=True)
    check(refused.returncode == 2 and "cannot be replayed" in refused.stderr, refused)


def measured_import(path, out):
    """Imports, and returns the kilobytes of memory needed at the peak; 0 under a sanitizer."""
    peak = 0
    with subprocess.Popen([TOOL, "import", path, "-o", out], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                continue
            peak = max([peak] + [int(line.split()[1]) for line in status.splitlines()
                                 if line.startswith("VmHWM")])
            time.sleep(0.002)
    check(process.returncode == 0, path, process.returncode)
    return 0 if b"__asan_init" in pathlib.Path(TOOL).read_bytes() else peak


def test_memory(work):
    """A snapshot of 20 MB opens in little more memory than a small one."""
    rng = random.Random(5)
    snapshot, _ = make_snapshot(5, devices=1)
    frames = [{"filename": f"/src/{i}.py", "line": i, "name": f"f{i}"} for i in range(500)]
    trace = []
    for i in range(130_000):
        stack = rng.choices(frames, k=12)
        for action in ("alloc", "free_requested", "free_completed"):
            trace.append({"action": action, "addr": 0x7F0000000000 + (i % 5000) * 512,
                          "size": 512 + i % 7, "stream": 0, "time_us": START_US + i,
                          **({"frames": stack} if action != "free_completed" else {})})
    snapshot["device_traces"] = [trace]
    snapshot["segments"] = []
    path, out = f"{work}/big.pickle", f"{work}/big.dtr.sqlite"
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)
    size = os.path.getsize(path)
    check(size > 20e6, size)
    used = measured_import(path, out)
    check(query(out, "SELECT count(*) AS n FROM freeing") == [{"n": 130_000}], "freeings")
    check(used < 100 << 10, "kilobytes of memory", used)
    return f"{used >> 10} MiB"


def write_large(path, megabytes):
    """The bytes that the C pickler would write for a long trace, without building it."""
    keys = ["action", "addr", "size", "stream", "time_us", "frames", "alloc", "free_requested",
            "free_completed", "device_traces"]
    n_memo = 0

    def memo(data):
        nonlocal n_memo
        n_memo += 1
        return data + b"\x94"

    def text(value):
        return memo(b"\x8c" + bytes([len(value)]) + value.encode())

    def get(i):
        return b"h" + bytes([i]) if i < 256 else b"j" + struct.pack("<I", i)

    with open(path, "wb") as file:
        file.write(b"\x80\x04" + memo(b"}") + b"(" + text("keys") + memo(b"]") + b"(")
        place = {}
        for key in keys:
            place[key] = n_memo
            file.write(text(key))
        file.write(b"e" + text("stacks") + memo(b"]") + b"(")
        frames = []
        for i in range(5000):
            frames.append(n_memo)
            file.write(memo(b"}") + b"(" + text("name") + text(f"function_{i}") + text("filename")
                       + text(f"/a/module/{i % 300}.py") + text("line") + b"M"
                       + struct.pack("<H", i) + b"u")
        file.write(b"e" + get(place["device_traces"]) + memo(b"]") + memo(b"]"))
        rng, n = random.Random(1), 0
        calls = [[rng.choice(frames)] for _ in range(20)]  # a tree of calls, 20 deep
        for _ in range(20000):
            calls.append([rng.choice(frames), *rng.choice(calls)][:20])
        while file.tell() < megabytes << 20:
            batch = [b"("]
            for _ in range(333):
                stack = n_memo + 1
                n += 1
                for action in ("alloc", "free_requested", "free_completed"):
                    batch.append(memo(b"}") + b"(" + get(place["action"]) + get(place[action])
                                 + get(place["addr"]) + b"\x8a\x06"
                                 + struct.pack("<Q", 0x7F0000000000 + (n % 50000) * 512)[:6]
                                 + get(place["size"]) + b"J" + struct.pack("<i", 512 + n % 100)
                                 + get(place["stream"]) + b"K\x00" + get(place["time_us"])
                                 + b"\x8a\x07" + struct.pack("<Q", START_US + n)[:7])
                    if action == "alloc":
                        batch.append(get(place["frames"]) + memo(b"]") + b"("
                                     + b"".join(get(f) for f in rng.choice(calls)) + b"e")
                    elif action == "free_requested":
                        batch.append(get(place["frames"]) + get(stack))
                    batch.append(b"u")
            file.write(b"".join(batch) + b"e")
        file.write(b"au.")
    return n


def test_large(work):
    megabytes = int(os.environ.get("DTR_IMPORT_LARGE") or 0)
    if not megabytes:
        return "skipped"
    path, out = f"{work}/large.pickle", f"{work}/large.dtr.sqlite"
    n = write_large(path, megabytes)
    if megabytes < 300:
        with open(path, "rb") as file:
            check(len(pickle.load(file)["device_traces"][0]) == 3 * n, "pickle reads it otherwise")
    begin = time.monotonic()
    used = measured_import(path, out)
    took = time.monotonic() - begin
    check(query(out, "SELECT count(*) AS n FROM freeing") == [{"n": n}], "freeings")
    check(used < max(megabytes << 10, 200 << 10), "kilobytes of memory", used)
    return (f"{megabytes} MiB, {3 * n} actions: {took:.1f} s, {used >> 10} MiB of memory, "
            f"{os.path.getsize(out) >> 20} MiB of database")


# --- Chrome traces --------------------------------------------------------------------------------

def make_trace(seed):
    """Events of two processes and three threads, with what should come of them."""
    rng = random.Random(seed)
    events, runs, marks, memory = [], [], [], []
    for i in range(300):
        ts = 1000 + i * 7 + rng.choice([0, 0.125, 0.5])
        name = rng.choice(["aten::mm", "aten::add", "ключ \"x\"\n", "k<float>"])
        pid, tid = rng.choice([(10, 1), (10, 2), ("gpu", 7)])
        dur = rng.choice([0, 1.5, 3])
        kind = rng.random()
        if kind < 0.6:
            events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": tid,
                           "ts": ts, "dur": dur, "args": {"Sizes": [[1], []], "x": {"y": None}}})
            runs.append((str(pid), round(ts * 1000), round(dur * 1000), name))
        elif kind < 0.8:
            events.append({"ph": "B", "cat": "op", "name": name, "pid": pid, "tid": tid, "ts": ts})
            events.append({"ph": "B", "cat": "op", "name": "inner", "pid": pid, "tid": tid,
                           "ts": ts + 1})
            events.append({"ph": "E", "pid": pid, "tid": tid, "ts": ts + 2})
            events.append({"ph": "E", "pid": pid, "tid": tid, "ts": ts + 3})
            runs.append((str(pid), round(ts * 1000) + 1000, 1000, "inner"))
            runs.append((str(pid), round(ts * 1000), 3000, name))
        else:
            events.append({"ph": "X", "cat": "user_annotation", "name": "span", "pid": 10,
                           "tid": 1, "ts": ts, "dur": 2})
            marks += [(round(ts * 1000), 4, "span"), (round(ts * 1000) + 2000, 5, "span")]
    for i in range(3):
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i + 5}",
                       "pid": 10, "tid": 1, "ts": 1000 + i * 100, "dur": 99})
        marks.append((1000000 + i * 100000, 0, i + 5))
    live, total = {1 << 40: 64}, 1000
    for i in range(200):
        if live and rng.random() < 0.5:
            address = rng.choice(list(live))
            size = -live.pop(address)
        else:
            address, size = rng.choice([a for a in range(4096, 65536, 64) if a not in live]), 32 + i
            live[address] = size
        total += size
        memory.append((2000000 + i * 1000, address, size, total))
        events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]",
                       "pid": 10, "tid": 1, "ts": 2000 + i,
                       "args": {"Addr": address, "Bytes": size, "Total Allocated": total,
                                "Device Type": 0, "Device Id": -1}})
    events.append({"ph": "s", "id": 1, "pid": 10, "tid": 1, "ts": 1, "name": "flow"})
    events.append({"ph": "C", "pid": 10, "ts": 1, "name": "n", "args": {"n": 1}})
    events.append({"ph": "M", "pid": 10, "name": "process_name", "args": {"name": "train.py"}})
    rng.shuffle(events)
    return events, runs, marks, memory


def compare_trace(out, runs, marks, memory):
    lanes = {r["id"]: ("10" if r["pid"] == 10 else "gpu") for r in query(out, "SELECT * FROM run")}
    check(sorted(lanes.values()) == ["10", "gpu"], lanes)
    got = sorted((lanes[r["run"]], r["ts_ns"], r["dur_ns"], r["name"])
                 for r in query(out, "SELECT * FROM operator_run"))
    check(got == sorted(runs), "runs")
    got = [(r["ts_ns"], r["mark"], r["value"] if r["mark"] == 0 else r["name"])
           for r in query(out, "SELECT * FROM mark ORDER BY seq")]
    check(sorted(got, key=str) == sorted(marks, key=str), "marks")
    check([g[0] for g in got] == sorted(g[0] for g in got), "the order of marks")
    got = query(out, """SELECT seq, ts_ns, bytes, in_use FROM allocation WHERE bytes <> 936 AND
                        ts_ns >= 2000000 UNION ALL SELECT seq, ts_ns, -bytes, in_use FROM freeing
                        ORDER BY 1""")
    expected = [(ts, size, total) for ts, _, size, total in memory]
    check([(r["ts_ns"], r["bytes"], r["in_use"]) for r in got] == expected, "memory")
    lost = {r["reason"][:4]: r["count"] for r in query(out, "SELECT * FROM loss")}
    check(lost == {"flow": 1, "coun": 1}, lost)
    check(query(out, "SELECT program FROM run WHERE pid = 10") == [{"program": "train.py"}], "name")


def test_traces(work):
    for seed in range(4):
        events, runs, marks, memory = make_trace(seed)
        path, out = f"{work}/t{seed}.json", f"{work}/t{seed}.dtr.sqlite"
        data = json.dumps(events if seed % 2 else {"a": {"b": [1]}, "traceEvents": events},
                          ensure_ascii=seed < 2, indent=seed or None)
        if seed == 1:
            data = data.rstrip().removesuffix("]").rstrip() + ",\n"
        with (gzip.open if seed == 3 else open)(path, "wt", encoding="utf-8") as file:
            file.write(data)
        text = run_import(path, out)
        if seed == 1:
            lost = query(out, "SELECT reason FROM loss WHERE count IS NULL")
            check(len(lost) == 1 and "incomplete" in text, lost, text)
            subprocess.run(["sqlite3", out, "DELETE FROM loss WHERE count IS NULL"], check=True)
        compare_trace(out, runs, marks, memory)


# --- logs, errors ---------------------------------------------------------------------------------

def test_logs(work):
    log, out = SOURCE / "tests/data/random/rnd5.log", f"{work}/l.dtr.sqlite"
    run_import(str(log), out)
    command = [TOOL, "sim", "--budget", "60%", "--format", "json"]
    results = [subprocess.run([*command, p], capture_output=True, check=True).stdout
               for p in (log, out)]
    check(results[0] == results[1], "simulations differ")
    for verb in ("info", "stats"):
        subprocess.run([TOOL, verb, out], check=True, capture_output=True)
    facts = query(out, "SELECT kind, result, source, budget_bytes FROM run")[0]
    check(facts == {"kind": "import", "result": "ok", "source": str(log), "budget_bytes": None},
          facts)


def test_errors(work):
    def refused(name, data, words, *options, code=1):
        path = f"{work}/{name}"
        with open(path, "wb") as file:
            file.write(data)
        text = run_import(path, f"{work}/{name}.out", *options, code=code)
        check(words in text and name in text, words, text)

    refused("random", bytes(range(1, 100)), "--format")
    refused("empty", b"", "empty")
    refused("cut.json", b'{"traceEvents":[{"ph":"X"', "cut short")
    refused("bad.json", b'[{"ph" "X"}]', "byte 8")
    refused("none.json", b"[]", "no events")
    refused("plain.pickle", pickle.dumps({"a": [1, 2]}), "_record_memory_history")
    refused("cut.pickle", pickle.dumps({"a": [1, 2]})[:-3], "cut short")
    trace = gzip.compress(json.dumps([{"ph": "X", "name": os.urandom(9).hex(), "ts": 1}
                                      for _ in range(30000)]).encode())
    refused("cut.gz", trace[:len(trace) // 2], "damaged")
    refused("log.json", b'{"INSTRUCTION":"CALL"}\n', "log.json")
    out = f"{work}/l2.dtr.sqlite"
    run_import(str(SOURCE / "tests/data/random/rnd1.log"), out)
    stamp = os.stat(out).st_mtime_ns
    again = subprocess.run([TOOL, "import", out, "-o", f"{work}/x"], capture_output=True, text=True)
    check(again.returncode == 1 and "dtrscope serve" in again.stderr, again)
    again = subprocess.run([TOOL, "import", SOURCE / "tests/data/random/rnd2.log", "-o", out],
                           capture_output=True, text=True)
    check(again.returncode == 1 and "--force" in again.stderr, again)
    check(os.stat(out).st_mtime_ns == stamp, "the file was touched")
    run_import(str(SOURCE / "tests/data/random/rnd2.log"), out, "--force")


def main():
    for test in (test_snapshots, test_nothing_runs, test_oddities, test_traces, test_logs,
                 test_errors, test_memory, test_large):
        with tempfile.TemporaryDirectory() as work:
            told = test(work)
        print(test.__name__, told or "ok", flush=True)


main()
