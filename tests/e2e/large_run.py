"""A run that is too large to hold: the page's pictures come from tiles, and from the events once a
window is small enough.  Held against what a server says that holds the whole run."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

TOOL, BUILD = (pathlib.Path(os.environ[f"DTRSCOPE_{name}"]) for name in ("BIN", "BUILD"))


def check(what, condition):
    if not condition:
        sys.exit(f"failed: {what}")


class Server:
    def __init__(self, file, *options):
        self.process = subprocess.Popen([str(TOOL), "serve", str(file), "--port", "0", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address, token = re.match(r"(http://\S+)/#token=(\w+)",
                                       self.process.stdout.readline()).groups()
        self.headers = {"Authorization": f"Bearer {token}"}

    def ask(self, path, **params):
        query = "&".join(f"{name}={value}" for name, value in {"file": 0, "run": 1, **params}.items())
        request = urllib.request.Request(f"{self.address}/api/{path}?{query}", headers=self.headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def good(self, path, **params):
        code, answer = self.ask(path, **params)
        check(f"{path} {params}: {code} {answer}", code == 200)
        return answer

    def stop(self):
        self.process.terminate()
        check("the server ends well", self.process.wait(10) == 0)


def runs_of(lanes):
    return (sum(lane["runs"] for lane in lanes["lanes"] if not lane["replay"]),
            sum(lane["runs"] for lane in lanes["lanes"] if lane["replay"]))


def compare(whole, part):
    run = part.good("run")
    check("the run's extent", whole.good("run")["begin"] == run["begin"])
    begin, end = run["begin"], run["end"]
    check("marks are there", run["marks"] == whole.good("run")["marks"])
    exact, tiles = whole.good("evictions"), part.good("evictions")
    check("all evictions", exact["evictions"] == tiles["evictions"] > 0)
    check("all their bytes", sum(t[2] for t in exact["ticks"]) == sum(t[2] for t in tiles["ticks"]))
    check("all runs", runs_of(whole.good("lanes")) == runs_of(part.good("lanes")))
    exact, tiles = whole.good("memory", buckets=300), part.good("memory", buckets=300)
    check("bytes given back", sum(exact["evicted_bytes"]) == sum(tiles["evicted_bytes"]))
    check("the budget", exact["budget"] == tiles["budget"])
    for i, (low, high) in enumerate(zip(exact["min"], exact["avg"])):
        around = slice(max(i - 2, 0), i + 3)
        check(f"bucket {i} lies within the tiles around it",
              min(tiles["min"][around]) <= high and low <= max(tiles["max"][around]))
    code, answer = part.ask("residency")
    check("storages need a smaller window", code == 413 and "zoom in" in answer["error"]["text"])
    t0 = begin + (end - begin) // 2
    window = {"t0": t0, "t1": t0 + (end - begin) // 400}
    exact, few = whole.good("lanes", **window), part.good("lanes", **window)
    check("a small window is exact", exact["lanes"] == few["lanes"] and runs_of(few)[0] > 0)
    check("its evictions too", whole.good("evictions", **window) == part.good("evictions", **window))
    code, residency = part.ask("residency", **window)
    check("and storages show", code == 200 and residency["total"] > 0)
    execution = few["lanes"][0]["slices"][0][3]
    check("what is on the screen can be asked about",
          part.good("execution", execution=execution)["execution"] ==
          whole.good("execution", execution=execution)["execution"])


def main():
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name) / "run.dtr.sqlite"
        subprocess.run([str(TOOL), "record", "-o", str(file), "--budget", "22MiB", "--",
                        str(BUILD / "examples/charlm"), "--steps", "40"], check=True,
                       capture_output=True)
        whole, part = Server(file), Server(file, "--max-events", "100000")
        try:
            compare(whole, part)
        finally:
            whole.stop()
            part.stop()
    print("a large run shows")


main()
