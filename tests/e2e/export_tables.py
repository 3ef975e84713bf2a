#!/usr/bin/env python3
"""Exports of tables, read back by other programs and compared with the events row by row.

usage: export_tables.py DTRSCOPE CHARLM EXTENSION SOURCE

The reference is what the sqlite3 shell reads through the extension, or events that are packed here.
Exit 77, with the reason, where something is missing.
"""

import contextlib
import csv
import json
import math
import os
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile

TOOL, CHARLM, EXTENSION, SOURCE = map(os.path.abspath, sys.argv[1:5])
HELPER = os.path.join(SOURCE, "tests/e2e/export_tables.mjs")
SHELL = dict(os.environ)
if SHELL.get("SANITIZER_RUNTIME"):
    SHELL.update(LD_PRELOAD=SHELL["SANITIZER_RUNTIME"], ASAN_OPTIONS="detect_leaks=0")
FORMATS = ["csv", "jsonl", "parquet", "arrow", "sqlite"]
READERS = {"csv": ["csv"], "jsonl": ["jsonl"], "parquet": ["hyparquet", "duckdb"], "arrow": ["arrow"],
           "sqlite": ["sqlite"]}
# Columns where -1 is a value.
ALWAYS = {"ts_ns", "seq", "delta", "score", "constant", "mutates", "replay", "reason", "tied", "change",
          "overshoot", "mark", "part"}
NAMES = [b'quote " and, comma', b"back\\slash \x01\x1f\x7f", b"line\nfeed\r\nand tab\t", b"\xff\xfe bad \xc3",
         b"\xed\xa0\x80\xf4\x90\x80\x80", "é \U0001f600".encode(), b"'; DROP TABLE run; --", b" ", b"=1+1",
         b"</script>\xe2\x80\xa8"]
BASE = 2**61


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(str, what)))


def run(*command, code=0, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, **more)
    check(done.returncode == code, command, "ended with", done.returncode, done.stderr.decode())
    return done


def clean(data):
    """As UTF-8, U+FFFD for each byte that is none."""
    text = data.decode("utf-8", "surrogateescape")
    return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in text)


def schema():
    """Columns of each kind, as `dtrscope schema` would say, from the list of events."""
    kinds, names = {}, {}
    text = open(os.path.join(SOURCE, "include/dtr/event.h")).read()
    for line in text.splitlines():
        words = line.replace("(", " ").replace(",", " ").split()
        if words[:1] == ["#define"] and words[1].startswith("DTR_FIELDS_"):
            fields = kinds.setdefault(words[1][len("DTR_FIELDS_"):], [])
        elif words[:1] == ["F"]:
            fields.append((words[1], words[2]))
        elif words[:1] == ["E"] and words[1] in kinds:
            names[words[2]] = kinds[words[1]]
    check(len(names) >= 19, "the list of events is read wrongly")
    return {name: [("ts_ns", "NS"), ("seq", "ID")] + fields for name, fields in names.items()}


KINDS = schema()


def reference(path, kind, base, where=""):
    """Rows of a kind: what the shell says, with NULLs and times as an export has them."""
    columns = ["quote(CAST({0} AS BLOB))" if unit == "NAME" else "quote({0})" for _, unit in KINDS[kind]]
    names = [name for name, _ in KINDS[kind]]
    sql = f"SELECT {', '.join(c.format(n) for c, n in zip(columns, names))} FROM {kind} WHERE run = 1 {where} ORDER BY seq"
    out = run("sqlite3", path, f".load {EXTENSION}", sql, env=SHELL).stdout.decode()
    rows = []
    for line in out.splitlines():
        row = []
        for (name, unit), text in zip(KINDS[kind], line.split("|")):
            if text == "NULL":
                row.append(None)
            elif unit == "NAME":
                row.append(clean(bytes.fromhex(text[2:-1])))
            elif unit == "REAL":
                row.append(float(text))
            else:
                value = int(text)
                row.append(value - base if name == "ts_ns" else
                           None if value == -1 and name not in ALWAYS else value)
        rows.append(row)
    return rows


# --- readers -------------------------------------------------------------------------------------


def convert(kind, row):
    """Texts of csv to values."""
    return [None if text == "" else text if unit == "NAME" else float(text) if unit == "REAL" else int(text)
            for (_, unit), text in zip(KINDS[kind], row)]


def read_csv(path, kind):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, strict=True))
    return rows[0], [convert(kind, row) for row in rows[1:]]


def refuse(text):
    raise AssertionError(f"{text} is no JSON")


def read_jsonl(path, kind):
    names, rows = [name for name, _ in KINDS[kind]], []
    for line in open(path, encoding="utf-8"):
        event = json.loads(line, parse_constant=refuse)
        if event["event"] == kind:
            check(list(event)[1:] == names, "keys", list(event))
            rows.append([event[name] for name in names])
    return names, rows


def read_sqlite(path, kind):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        rows = db.execute(f'SELECT * FROM "{kind}" ORDER BY rowid')
        return [column[0] for column in rows.description], [list(row) for row in rows]


def read_node(reader, path):
    done = subprocess.run(["node", HELPER, SOURCE, reader, path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300)
    if done.returncode == 77:
        print(done.stdout.decode().strip())
        sys.exit(77)
    check(done.returncode == 0, reader, path, done.stderr.decode())
    lines = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    return lines[0], lines[1], lines[2:]


def read(reader, path, kind):
    if reader == "csv":
        return read_csv(path, kind)
    if reader == "jsonl":
        return read_jsonl(path, kind)
    if reader == "sqlite":
        return read_sqlite(path, kind)
    columns, _, rows = read_node(reader, path)
    return columns, rows


def same(a, b):
    if isinstance(b, float) and isinstance(a, str):
        a = float(a)
    if isinstance(b, float) and math.isnan(b):
        return isinstance(a, float) and math.isnan(a)
    return a == b


def compare(what, kind, got, expected):
    columns, rows = got
    check(columns == [name for name, _ in KINDS[kind]], what, kind, "columns", columns)
    check(len(rows) == len(expected), what, kind, "has", len(rows), "rows, not", len(expected))
    for i, (row, wanted) in enumerate(zip(rows, expected)):
        for name, a, b in zip(columns, row, wanted):
            check(same(a, b), what, kind, "row", i, name, repr(a), "is not", repr(b))


def file_of(format, path, kind):
    return path if format in ("jsonl", "sqlite") else os.path.join(path, f"{kind}.{format}")


def export(path, format, out, *more, code=0):
    return run(TOOL, "export", path, "--format", format, "-o", out, *more, code=code)


# --- groups --------------------------------------------------------------------------------------


def every_row(path, base):
    """All kinds of a run in all formats."""
    expected = {kind: reference(path, kind, base) for kind in KINDS}
    check(sum(map(len, expected.values())) > 500, "a run with few events")
    for format in FORMATS:
        out = f"whole.{format}"
        done = export(path, format, out)
        for kind, rows in expected.items():
            if format in ("csv", "parquet", "arrow") and not rows:
                check(not os.path.exists(file_of(format, out, kind)), "a file of no rows", kind)
                continue
            for reader in READERS[format]:
                compare(reader, kind, read(reader, file_of(format, out, kind), kind), rows)
        (shutil.rmtree if os.path.isdir(out) else os.unlink)(out)
        check(b"lost" not in done.stderr, done.stderr)


def hostile_names(path):
    """Any bytes as names come out as UTF-8; a loss is said."""
    shutil.copy(path, "hostile.dtr.sqlite")
    with contextlib.closing(sqlite3.connect("hostile.dtr.sqlite", isolation_level=None)) as db:
        ids = [row[0] for row in db.execute("SELECT id FROM name WHERE run = 1 ORDER BY id")]
        check(len(ids) >= len(NAMES), "too few names")
        for i, text in zip(ids, NAMES):
            db.execute("UPDATE name SET text = CAST(? AS TEXT) WHERE run = 1 AND id = ?", (text, i))
        db.execute("INSERT INTO loss VALUES (1, 'ring \"full\"', 12), (1, 'disk full', NULL)")
    every = {clean(name) for name in NAMES}
    base = base_of("hostile.dtr.sqlite")
    expected = reference("hostile.dtr.sqlite", "operator_run", base)
    place = [name for name, _ in KINDS["operator_run"]].index("name")
    check(len(every & {row[place] for row in expected}) >= 5, "hostile names are not used")
    for format in FORMATS:
        out = f"hostile.{format}"
        done = export("hostile.dtr.sqlite", format, out, "--events", "operator_run")
        check(b'12 events lost: ring "full"' in done.stderr, done.stderr)
        check(b"unknown number of events lost: disk full" in done.stderr, done.stderr)
        for reader in READERS[format]:
            compare(reader, "operator_run", read(reader, out, "operator_run"), expected)
            if format in ("parquet", "arrow"):
                metadata = dict(read_node(reader, out)[1])
                check(metadata['dtrscope.lost.ring "full"'] == "12", metadata)
                check(metadata["dtrscope.lost.disk full"] == "unknown", metadata)
                check(metadata["dtrscope.base_ts_ns"] == str(base), metadata)
    first = json.loads(open("hostile.jsonl").readline())
    check(first["lost"] == {'ring "full"': 12, "disk full": None}, first)
    export("hostile.dtr.sqlite", "csv", "low")
    with open("low/name.csv", newline="", encoding="utf-8") as file:
        check(every <= {row[1] for row in csv.reader(file)}, "names of name.csv")
    with open("low/loss.csv", newline="", encoding="utf-8") as file:
        check(list(csv.reader(file))[1:] == [["disk full", ""], ['ring "full"', "12"]], "loss.csv")
    with contextlib.closing(sqlite3.connect("hostile.sqlite")) as db:
        check(db.execute("SELECT count FROM loss ORDER BY reason").fetchall() == [(None,), (12,)], "loss")
        check(db.execute("PRAGMA integrity_check").fetchone() == ("ok",), "integrity")


def base_of(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT base_ts_ns FROM run WHERE id = 1").fetchone()[0]


def pack(rows):
    """Format 1: every column as 64-bit differences from 0."""
    data = b""
    for column in zip(*rows):
        data += struct.pack("<Bq", 0x18, 0) + b"".join(
            struct.pack("<d" if isinstance(value, float) else "<q", value) for value in column)
    return data


def make_run(path, chunks, base=BASE, has_events=1):
    """A file whose only run has these events: (kind's number, rows)."""
    run(TOOL, "sim", "--chain", "3", "-o", path, "--force")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM event_chunk")
        db.execute("UPDATE run SET base_ts_ns = ?, has_events = ?", (base, has_events))
        for kind, rows in chunks:
            times, seqs = [row[0] for row in rows], [row[1] for row in rows]
            db.execute("INSERT INTO event_chunk VALUES (NULL, 1, ?, ?, ?, ?, ?, ?, 1, ?)",
                       (kind, min(times), max(times), min(seqs), max(seqs), len(rows), pack(rows)))


def odd_values():
    """Scores that are not finite, times far from 0, columns of NULLs, and runs without events."""
    scores = [math.inf, -math.inf, 5e-324, 0.1, -0.0, 1.7976931348623157e308, math.nan]
    rows = [[BASE + i, i, -1, 0, i, score, 2**62, -1, -(2**62), -1, -1] for i, score in enumerate(scores)]
    make_run("odd.dtr.sqlite", [(11, rows), (12, [[BASE, 90, 3, -1, 2]])])
    expected = [[i, i, None, 0, i, score, 2**62, None, -(2**62), None, None] for i, score in enumerate(scores)]
    for format in FORMATS:
        out = f"odd.{format}"
        export("odd.dtr.sqlite", format, out, "--events", "candidate,reference")
        for reader in READERS[format]:
            wanted = [row[:] for row in expected]
            if reader == "sqlite":
                wanted[-1][5] = None  # SQLite stores no NaN
            got = read(reader, file_of(format, out, "candidate"), "candidate")
            if reader in ("jsonl", "hyparquet", "duckdb", "arrow"):
                got = got[0], [r[:5] + [float(r[5])] + r[6:] for r in got[1]]
            compare(reader, "candidate", got, wanted)
            compare(reader, "reference", read(reader, file_of(format, out, "reference"), "reference"),
                    [[0, 90, 3, -1, 2]])
    make_run("empty.dtr.sqlite", [])
    for format in FORMATS:
        export("empty.dtr.sqlite", format, f"empty.{format}")
        export("empty.dtr.sqlite", format, f"empty1.{format}", "--events", "chain")
        for reader in READERS[format]:
            compare(reader, "chain", read(reader, f"empty1.{format}", "chain"), [])
    make_run("none.dtr.sqlite", [], has_events=0)
    check(b"no run with events" in export("none.dtr.sqlite", "csv", "none", code=2).stderr, "no events")
    check(b"nothing to" in export("none.dtr.sqlite", "csv", "none", "--run", "1", code=2).stderr, "no events")


def ranges(path):
    """Steps, times and shares cut the run into parts that make the whole."""
    base = base_of(path)
    marks = {row[4]: row[1] for row in reference(path, "mark", base, "AND mark = 0")}
    check(sorted(marks) == list(range(len(marks))) and len(marks) >= 3, "iteration marks", marks)
    whole = reference(path, "allocation", base)
    for steps, low, high in (("1:2", marks[1], marks[2]), ("2:", marks[2], math.inf), ("0:1", marks[0], marks[1])):
        export(path, "csv", "steps.csv", "--events", "allocation", "--steps", steps, "--force")
        compare(steps, "allocation", read_csv("steps.csv", "allocation"),
                [row for row in whole if low <= row[1] < high])
    middle = whole[len(whole) // 2][0]
    for parts in ((("--end", f"{middle}ns"), ("--start", f"{middle}ns")),
                  (("--end", "30%"), ("--start", "30%", "--end", "70%"), ("--start", "70%"))):
        rows = []
        for part in parts:
            export(path, "csv", "part.csv", "--events", "allocation", "--force", *part)
            rows += read_csv("part.csv", "allocation")[1]
        check(0 < len(rows) == len(whole) and rows == whole, parts, "do not make the whole")
    for bad in (("--steps", "7000:"), ("--steps", "2:1"), ("--steps", "x"), ("--start", "200%"),
                ("--start", "5s", "--end", "1s"), ("--events", "evictions"), ("--events", ""),
                ("--start", "1s", "--steps", "0:1")):
        done = export(path, "csv", "bad.csv", *bad, code=2)
        check(done.stderr.count(b"\n") == 1 and bad[0].encode() in done.stderr, bad, done.stderr)
        check(not os.path.exists("bad.csv"), bad, "left a file")


def only(*allowed):
    check(set(os.listdir(".")) == set(allowed), "left behind:", set(os.listdir(".")) ^ set(allowed))


def failures(path):
    """A full disk, a full device, files that exist: an error, exit code 1, and nothing left."""
    os.mkdir("clean")
    os.chdir("clean")

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    for format in FORMATS:
        done = run(TOOL, "export", path, "--format", format, "-o", "full", code=1, preexec_fn=limited)
        check(done.stderr.startswith(b"dtrscope export: cannot write"), done.stderr)
        only()
    for format in ("csv", "jsonl", "parquet", "arrow"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([TOOL, "export", path, "--format", format, "--events", "candidate", "-o", "-"],
                                  stdout=full, stderr=subprocess.PIPE, timeout=300)
        check(done.returncode == 1 and b"cannot write standard output" in done.stderr, done)
        export(path, format, "/dev/full", "--events", "candidate", code=1)
    check(os.path.exists("/dev/full"), "the device is gone")
    only()
    for format in FORMATS:
        open("there", "w").write("mine")
        export(path, format, "there", "--events", "candidate", code=1)
        check(open("there").read() == "mine", format, "replaced a file")
        export(path, format, "there", "--events", "candidate", "--force")
        check(open("there", "rb").read() != b"mine", format, "did not replace a file")
        only("there")
        os.unlink("there")
    os.chdir("..")


def outputs(path):
    """Standard output, default names, directories, and readers that go away."""
    os.mkdir("names")
    shutil.copy(path, "names/run.dtr.sqlite")
    os.chdir("names")
    for format in FORMATS:
        run(TOOL, "export", "run.dtr.sqlite", "--format", format)
    run(TOOL, "export", "run.dtr.sqlite", "--format", "csv", "--events", "eviction")
    only("run.dtr.sqlite", "run.csv", "run.jsonl", "run.parquet", "run.arrow", "run.sqlite", "run.eviction.csv")
    for format in ("csv", "jsonl", "parquet", "arrow"):
        export("run.dtr.sqlite", format, "file", "--events", "eviction", "--force")
        out = run(TOOL, "export", "run.dtr.sqlite", "--format", format, "--events", "eviction", "-o", "-").stdout
        check(out == open("file", "rb").read(), format, "standard output differs")
    export("run.dtr.sqlite", "csv", "-", code=2)
    export("run.dtr.sqlite", "sqlite", "-", code=2)
    export("run.dtr.sqlite", "sqlite", "run.dtr.sqlite", "--force", code=2)
    export("run.dtr.sqlite", "csv", "run.csv", code=1)
    open("run.csv/mine", "w").close()
    export("run.dtr.sqlite", "csv", "run.csv", "--events", "eviction,decision", "--force")
    low = {"run", "setting", "name", "loss", "clock_sample", "recording_window"}
    check(set(os.listdir("run.csv")) == {f"{name}.csv" for name in low | {"eviction", "decision"}} | {"mine"},
          os.listdir("run.csv"))
    done = run("sh", "-c", '"$0" export run.dtr.sqlite --format jsonl -o - | head -n 1', TOOL)
    check(done.stderr == b"" and done.stdout.count(b"\n") == 1, done)
    os.chdir("..")


def memory():
    """Two million events, 200 MB unpacked: several batches of rows, and no more memory than one."""
    rows = [[BASE + i, i] + [i % 7] * 11 for i in range(4096)]
    make_run("long.dtr.sqlite", [(5, rows)])
    with contextlib.closing(sqlite3.connect("long.dtr.sqlite", isolation_level=None)) as db:
        db.execute("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 499) "
                   "INSERT INTO event_chunk SELECT NULL, run, kind, ts_min, ts_max, seq_min, seq_max, "
                   "e.n, format, data FROM n, event_chunk AS e")
        db.execute("DELETE FROM name")
    environment = dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=1:detect_leaks=0")
    for format in FORMATS:
        pid = os.posix_spawn(TOOL, [TOOL, "export", "long.dtr.sqlite", "--format", format, "--events",
                                    "operator_run", "-o", "long"], environment)
        _, status, usage = os.wait4(pid, 0)
        check(status == 0, format, "ended with", status)
        check(usage.ru_maxrss < 128 * 1024, format, "took", usage.ru_maxrss, "KiB")
        if format == "parquet":
            check(count_duckdb() == 500 * 4096, "rows of the long file")
        os.unlink("long")


def count_duckdb():
    script = ("const { createRequire } = await import('node:module');"
              "const { DuckDBInstance } = createRequire(process.argv[1])('@duckdb/node-api');"
              "const c = await (await DuckDBInstance.create(':memory:')).connect();"
              "const r = await c.runAndReadAll(\"SELECT count(execution), count(DISTINCT name) FROM read_parquet('long')\");"
              "console.log(String(r.getRows()[0][0]));")
    done = run("node", "--input-type=module", "-e", script, os.path.join(SOURCE, "web/package.json"))
    return int(done.stdout)


def main():
    for tool in ("node", "sqlite3"):
        if not shutil.which(tool):
            print(f"skipped: there is no {tool}")
            sys.exit(77)
    log = os.path.join(SOURCE, "tests/data/random/rnd8.log")
    work = tempfile.mkdtemp(prefix="dtrscope-tables-")
    try:
        os.chdir(work)
        run(TOOL, "sim", log, "--budget", "60%", "-o", "sim.dtr.sqlite")
        run(TOOL, "record", "--budget", "4MiB", "-o", "live.dtr.sqlite", "--", CHARLM, "--steps", "4",
            "--layers", "2", "--dim", "32", "--context", "32", "--batch", "4")
        sim, live = os.path.abspath("sim.dtr.sqlite"), os.path.abspath("live.dtr.sqlite")
        chosen = sys.argv[5:]
        for name, test in (("rows of a simulation", lambda: every_row(sim, base_of(sim))),
                           ("rows of a live run", lambda: every_row(live, base_of(live))),
                           ("names", lambda: hostile_names(sim)), ("values", odd_values),
                           ("ranges", lambda: ranges(live)), ("failures", lambda: failures(sim)),
                           ("outputs", lambda: outputs(sim)), ("memory", memory)):
            if chosen and name not in chosen:
                continue
            test()
            print("ok:", name, flush=True)
    finally:
        os.chdir("/")
        shutil.rmtree(work)


main()
