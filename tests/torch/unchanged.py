"""`dtrscope record -- python3 script.py` on scripts that know nothing of dtrscope: they print what they
print without it, stay within the budget, and leave a file that check, sim, sweep and export accept."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOOL = os.environ["DTRSCOPE_BIN"]
EXAMPLES = os.path.join(os.environ["DTRSCOPE_SOURCE"], "examples/torch")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
ENVIRONMENT.pop("PYTHONPATH", None)  # the command finds the package itself


def call(*arguments, code=0, **more):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=500,
                          env={**ENVIRONMENT, **more})
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def stats(path):
    return json.loads(call(TOOL, "stats", "--format", "json", path).stdout)


def field(found, name):
    if isinstance(found, dict):
        if name in found:
            return found[name]
        found = list(found.values())
    if isinstance(found, list):
        for item in found:
            value = field(item, name)
            if value is not None:
                return value
    return None


def same_as_log(path):
    """The exported operator log is the same run to the simulator."""
    log = path + ".log"
    call(TOOL, "export", path, "--format", "simrd", "-o", log)
    for budget in ("none", "80%"):
        told = [call(TOOL, "sim", "--budget", budget, "--format", "json", trace).stdout
                for trace in (path, log)]
        assert told[0] == told[1], f"{path} within {budget}, and its log: {told}"
    os.remove(log)


def example(directory, name, *options, share=0.65):
    script = [sys.executable, os.path.join(EXAMPLES, name), *options]
    free, tight = (os.path.join(directory, name + kind) for kind in (".free.dtr.sqlite",
                                                                     ".tight.dtr.sqlite"))
    plain = call(*script).stdout
    assert "loss" in plain
    told = call(TOOL, "record", "-o", free, "--", *script)
    assert told.stdout == plain, f"{name}: other output when recorded:\n{told.stdout}\n{plain}"
    peak = field(stats(free), "peak_bytes")
    budget = int(peak * share)
    told = call(TOOL, "record", "--budget", budget, "--heuristic", "dtr-eq", "-o", tight, "--",
                *script)
    assert told.stdout == plain, f"{name}: other output within {budget} of {peak} bytes"
    counts = stats(tight)
    assert field(counts, "evictions") > 0, counts
    assert field(counts, "peak_bytes") <= budget or field(counts, "overshoots"), counts
    for path in (free, tight):
        assert "sound and complete" in call(TOOL, "check", path).stdout
        same_as_log(path)
    call(TOOL, "sim", "--heuristic", "dtr-eq", "--budget", "80%", free)
    marks = call(TOOL, "query", "--format", "csv", free,
                 "select mark, count(*) from mark group by mark order by mark").stdout
    for phase in (1, 2, 3):
        assert f"\n{phase}," in marks, f"{name}: phase {phase} is not marked: {marks}"
    print(f"{name}: {peak} bytes, {budget} with {field(counts, 'evictions')} evictions", flush=True)
    return free


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def errors(directory):
    out = os.path.join(directory, "e.dtr.sqlite")
    fails = write(directory, "fails.py", "import torch\ntorch.ones(3) + 1\nraise SystemExit(7)\n")
    done = call(TOOL, "record", "-o", out, "--", sys.executable, fails, code=7)
    assert "exit code 7" in done.stderr and "exit code      7" in call(TOOL, "info", out).stdout
    raises = write(directory, "raises.py", "import torch\nx = torch.ones(100000) + 1\nx * 2\n")
    done = call(TOOL, "record", "--force", "--budget", "600000", "-o", out, "--", sys.executable,
                raises, code=1)
    assert "out of memory under the budget" in done.stderr and "raise the budget" in done.stderr
    assert "out_of_memory" in call(TOOL, "info", out).stdout
    # An interpreter without PyTorch, and a program that does not use it, are left alone.
    done = call(TOOL, "record", "--force", "-o", out, "--", sys.executable, "-c", "print(1)", code=1)
    assert "no PyTorch operator ran" in done.stderr, done.stderr
    done = call(TOOL, "record", "--force", "-o", out, "--", sys.executable, "-c", "import torch")
    assert "no operator ran in it" in done.stderr, done.stderr
    done = call(TOOL, "record", "--force", "-o", out, "--", sys.executable, "-I", raises, code=1)
    assert "leave -I out" in done.stderr.splitlines()[0], done.stderr
    done = call(TOOL, "record", "--force", "-o", out, "--", sys.executable, raises, DTR_TORCH="0",
                code=1)
    assert "nothing was recorded" in done.stderr


def another_sitecustomize(directory):
    """The user's own is run as ever."""
    home = os.path.join(directory, "site")
    os.mkdir(home)
    write(home, "sitecustomize.py", "print('mine')\n")
    script = write(directory, "small.py", "import torch\nprint((torch.ones(3) + 1).sum().item())\n")
    out = os.path.join(directory, "s.dtr.sqlite")
    done = call(TOOL, "record", "-o", out, "--", sys.executable, script, PYTHONPATH=home)
    assert done.stdout == "mine\n6.0\n", done.stdout
    assert "aten::add" in call(TOOL, "query", out, "select name from operator_run").stdout


def own_budget_inside(directory):
    """What the command line says goes before what the program says."""
    script = write(directory, "own.py", """
import torch
import dtrscope
with dtrscope.budget("1KiB", heuristic="size"):
    x = torch.ones(1000) + 1
    y = x * 2
print(dtrscope.stats()["peak_bytes"] >= 8000, y.sum().item())
""")
    out = os.path.join(directory, "o.dtr.sqlite")
    done = call(TOOL, "record", "--budget", "1MiB", "-o", out, "--", sys.executable, script)
    assert done.stdout == "True 4000.0\n", done.stdout


def main():
    with tempfile.TemporaryDirectory() as directory:
        example(directory, "mnist.py", "--steps", "4", "--batch", "64", share=0.8)
        remove(directory)
        example(directory, "mnist.py", "--steps", "4", "--batch", "64", "--workers", "2",
                share=0.8)
        example(directory, "chartransformer.py", "--steps", "4", "--layers", "3")
        tree = example(directory, "treelstm.py", "--steps", "4", "--width", "24", "--batch", "12", share=0.85)
        call(TOOL, "sweep", tree, "--budgets", "60%,100%", "--heuristics", "dtr-eq,lru", "-o",
             os.path.join(directory, "sweep.dtr.sqlite"))
        errors(directory)
        another_sitecustomize(directory)
        own_budget_inside(directory)
    print("passed")
    return 0


def remove(directory):
    for name in os.listdir(directory):
        if ".dtr.sqlite" in name:
            os.remove(os.path.join(directory, name))


if __name__ == "__main__":
    sys.exit(main())
