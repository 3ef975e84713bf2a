"""Merging and migrating files: every row is kept, runs stay apart, clocks line up or are said not to,
and nothing of an input's schema is believed."""
import hashlib
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

TOOL, SOURCE, BUILD = (pathlib.Path(os.environ[f"DTRSCOPE_{name}"]) for name in ("BIN", "SOURCE", "BUILD"))
TABLES = ["run", "setting", "name", "loss", "clock_sample", "recording_window", "event_chunk", "tile"]
OLD = sorted((SOURCE / "tests/data/schema").glob("v1-*.dtr.sqlite"))


def check(what, condition):
    if not condition:
        sys.exit(f"failed: {what}")


def dtrscope(*arguments, expect=0):
    done = subprocess.run([str(part) for part in (TOOL, *arguments)], capture_output=True, text=True)
    if done.returncode != expect:
        sys.exit(f"{arguments}: exit code {done.returncode}, expected {expect}\n{done.stderr}")
    return done.stdout + done.stderr


def sql(file, statement, *values):
    with sqlite3.connect(file) as db:
        return db.execute(statement, values).fetchall()


def counts(file):
    return {table: sql(file, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES
            if sql(file, "SELECT 1 FROM sqlite_schema WHERE name = ?", table)}


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def events(file, run):
    return dtrscope("query", file, f"SELECT count(*), sum(ts_ns), sum(seq) FROM dtr_event_reference "
                    f"WHERE run = {run}", "--format", "csv")


def record(folder, name, *options, **environment):
    file = folder / name
    subprocess.run([str(TOOL), "record", "-o", str(file), "--budget", "22MiB", *options, "--",
                    str(BUILD / "examples/charlm"), "--steps", "1"], check=True,
                   capture_output=True, env={**os.environ, **environment})
    return file


def test_keeps_every_row(folder):
    a, b = record(folder, "a.dtr.sqlite"), record(folder, "b.dtr.sqlite")
    sim = folder / "sim.dtr.sqlite"
    dtrscope("sim", SOURCE / "tests/data/random/rnd3.log", "--budget", "60%", "-o", sim)
    out = folder / "all.dtr.sqlite"
    before = [digest(file) for file in (a, b, sim)]
    report = dtrscope("merge", "-o", out, a, b, sim)
    check("the report counts runs", "3 runs from 3 files" in report)
    check("inputs are untouched", before == [digest(file) for file in (a, b, sim)])
    check("no file is left beside it", not list(folder.glob("all.dtr.sqlite?*")))
    together = counts(out)
    for table in TABLES:
        check(f"table {table} keeps its rows",
              together[table] == sum(counts(file)[table] for file in (a, b, sim)))
    for run, file in enumerate((a, b, sim), 1):
        check("events are the same", events(out, run) == events(file, 1))
        check("the run is the same", sql(out, "SELECT uuid, source FROM run WHERE id = ?", run) ==
              [(sql(file, "SELECT uuid FROM run")[0][0], str(file))])
    check("integrity", sql(out, "PRAGMA integrity_check") == [("ok",)])
    check("an existing file is refused", "--force" in dtrscope("merge", "-o", out, a, expect=1))
    check("a run that is there twice is refused",
          "--skip-known" in dtrscope("merge", "-o", folder / "twice.dtr.sqlite", a, a, expect=1))
    check("nothing is left of it", not list(folder.glob("twice*")))
    dtrscope("merge", "-o", folder / "twice.dtr.sqlite", "--skip-known", a, a, b)
    check("it is skipped", counts(folder / "twice.dtr.sqlite")["run"] == 2)
    return a, b


def test_ranks(folder):
    script = folder / "ranks.sh"
    script.write_text('#!/bin/sh\nfor r in 0 1 2 3; do PMI_RANK=$r "$@" & done\nwait\n')
    script.chmod(0o755)
    subprocess.run([str(TOOL), "record", "-o", str(folder / "rank.%rank%.dtr.sqlite"), "--", str(script),
                    str(BUILD / "examples/charlm"), "--steps", "1"], check=True, capture_output=True)
    files = sorted(folder.glob("rank.*.dtr.sqlite"))
    check("one file a rank", [file.name for file in files] ==
          [f"rank.{r}.dtr.sqlite" for r in range(4)])
    dtrscope("merge", "--align", "clock", "-o", folder / "ranks.dtr.sqlite", *files)
    rows = sql(folder / "ranks.dtr.sqlite", "SELECT rank, unix_offset_ns, unix_uncertainty_ns FROM run")
    check("all ranks", [row[0] for row in rows] == [0, 1, 2, 3])
    check("one host has one offset", len({row[1] for row in rows}) == 1)
    check("with its uncertainty", all(0 < row[2] < 10_000_000_000 for row in rows))


def test_clocks(folder, a, b):
    """Another host booted at another time; its wall clock is 1.6 ms ahead."""
    other = folder / "other.dtr.sqlite"
    shutil.copy(b, other)
    sql(other, "UPDATE run SET host = 'elsewhere'")
    sql(other, "UPDATE clock_sample SET monotonic_ns = monotonic_ns - 11560000000, "
               "unix_ns = unix_ns + 1600000")
    out = folder / "clocks.dtr.sqlite"
    dtrscope("merge", "--align", "clock", "-o", out, a, other)
    (x, ux), (y, uy) = sql(out, "SELECT unix_offset_ns, unix_uncertainty_ns FROM run ORDER BY id")
    check("offsets differ by boot and skew", abs(y - x - 11_561_600_000) <= ux + uy)
    check("and are sure of it", ux + uy < 5_000_000)
    # A wall clock that was set back an hour between two samples says so in the uncertainty.
    sql(other, "UPDATE clock_sample SET unix_ns = unix_ns - 3600000000000 WHERE rowid = "
               "(SELECT max(rowid) FROM clock_sample)")
    dtrscope("merge", "--force", "-o", out, a, other)
    check("a step of the clock widens it", sql(out, "SELECT unix_uncertainty_ns FROM run WHERE id = 2")
          [0][0] >= 1_800_000_000_000)
    sql(other, "DELETE FROM clock_sample")
    report = dtrscope("merge", "--force", "-o", out, a, other)
    check("unaligned is said", "1 runs have no clock samples and stay unaligned" in report)
    check("and stored", sql(out, "SELECT unix_offset_ns FROM run WHERE id = 2") == [(None,)])
    check("info says it", "unaligned" in dtrscope("info", out))
    check("or refused", "no clock samples" in
          dtrscope("merge", "--force", "--align", "clock", "-o", out, a, other, expect=1))
    dtrscope("merge", "--force", "--align", "none", "-o", out, a, b)
    check("left alone", sql(out, "SELECT DISTINCT unix_offset_ns FROM run") == [(None,)])


def test_hostile(folder, a):
    bad = folder / "bad.dtr.sqlite"
    shutil.copy(a, bad)
    with sqlite3.connect(bad) as db:
        db.executescript("""
            DROP VIEW eviction;
            CREATE VIEW eviction AS SELECT 666 AS run, load_extension('evil') AS ts_ns;
            CREATE TRIGGER boom AFTER INSERT ON run BEGIN DELETE FROM run; END;
            CREATE TABLE "odd "" name; DROP TABLE run" (x);
            INSERT INTO name VALUES (1, 999999, 'quote " and '' and \\ ' || char(1) || char(10));
            INSERT INTO name VALUES (1, 1000000, CAST(x'fffe41' AS TEXT));
        """)
    out = folder / "hostile.dtr.sqlite"
    dtrscope("merge", "-o", out, bad, record(folder, "c.dtr.sqlite"))
    names = {row[0] for row in sql(out, "SELECT name FROM sqlite_schema")}
    check("no schema comes along", "boom" not in names and not any("odd" in name for name in names))
    check("the view is ours", "666" not in sql(out, "SELECT sql FROM sqlite_schema WHERE name = "
                                                    "'eviction'")[0][0])
    db = sqlite3.connect(out)
    db.text_factory = bytes
    texts = dict(db.execute("SELECT id, text FROM name WHERE run = 1 AND id >= 999999").fetchall())
    check("odd names are kept byte by byte", texts == {999999: b"quote \" and ' and \\ \x01\n",
                                                       1000000: b"\xff\xfeA"})
    sql(bad, "UPDATE event_chunk SET n = 100000 WHERE id = 3")
    check("damage is named", "damaged" in dtrscope("merge", "--force", "-o", out, bad, expect=1))
    check("and the old file stays", sql(out, "SELECT count(*) FROM run") == [(2,)])
    text = folder / "text.sqlite"
    text.write_text("no database")
    dtrscope("merge", "-o", folder / "no.sqlite", text, expect=1)
    sqlite3.connect(folder / "empty.sqlite").execute("CREATE TABLE t (x)")
    check("another's database is refused", "none of dtrscope's" in
          dtrscope("merge", "-o", folder / "no.sqlite", folder / "empty.sqlite", expect=1))
    check("nothing is made", not (folder / "no.sqlite").exists())
    check("a place that is not there", "cannot" in
          dtrscope("merge", "-o", "/not/there.sqlite", a, expect=1))


def shape(file):
    """Tables and their columns, in any order; views; indexes."""
    with sqlite3.connect(file) as db:
        tables = {name: sorted(row[1:4] + row[5:6] for row in db.execute(f"PRAGMA table_info({name})"))
                  for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        others = sorted(db.execute("SELECT type, name FROM sqlite_schema WHERE type != 'table'"))
        return tables, others


def test_old_files(folder, a):
    check("there are old files", len(OLD) >= 3)
    fresh = shape(a)
    for old in OLD:
        file = folder / old.name
        shutil.copy(old, file)
        before, rows = digest(file), counts(file)
        check("it is old", sql(file, "PRAGMA user_version") == [(1,)])
        dtrscope("info", file)
        dtrscope("stats", file, expect=0 if rows["event_chunk"] else 2)
        dtrscope("query", file, "SELECT uuid, host, rank FROM run")
        dtrscope("query", file, "--recipe", "cost-by-operator")
        dtrscope("query", file, "SELECT count(*) FROM tile_bucket, recording_window")
        check("reading changes nothing", digest(file) == before)
        dtrscope("merge", "-o", folder / "from-old.dtr.sqlite", "--force", file)
        check("merging keeps its rows", all(
            counts(folder / "from-old.dtr.sqlite")[table] == n for table, n in rows.items()))
        check("and reads only", digest(file) == before)
        dtrscope("migrate", file)
        check("it is new", sql(file, "PRAGMA user_version") == [(2,)])
        check("every row is there", all(counts(file)[table] == n for table, n in rows.items()))
        check("the schema is that of a new file", shape(file) == fresh)
        dtrscope("migrate", file)
        if rows["event_chunk"]:
            check("tiles were made", counts(file)["tile"] > 0)


def test_migration_is_whole_or_not(folder):
    """A table in the way makes it fail half-way; the file is then what it was."""
    file = folder / "half.dtr.sqlite"
    shutil.copy(OLD[0], file)
    sql(file, "CREATE TABLE tile (x)")
    rows, old_shape = counts(file), shape(file)
    check("it fails", "tile" in dtrscope("migrate", file, expect=1))
    check("version 1 still", sql(file, "PRAGMA user_version") == [(1,)])
    check("nothing changed", counts(file) == rows and shape(file) == old_shape)
    sql(file, "PRAGMA user_version = 99")
    check("a newer version is refused", "newer dtrscope" in dtrscope("info", file, expect=4))
    check("also for writing", "newer dtrscope" in dtrscope("migrate", file, expect=4))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        a, b = test_keeps_every_row(folder)
        test_ranks(folder)
        test_clocks(folder, a, b)
        test_hostile(folder, a)
        test_old_files(folder, a)
        test_migration_is_whole_or_not(folder)
    print("merged and migrated")


main()
