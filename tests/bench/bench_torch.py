"""What the PyTorch adapter costs where nothing has to be evicted: each row is measured plain and with
dtrscope in turn, in one process, and the medians and the median of the paired ratios are printed as JSON.

    bench_torch.py [--quick]
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch"))
import models  # noqa: E402


def loop(operator, n):
    begin = time.perf_counter()
    for _ in range(n):
        operator()
    return (time.perf_counter() - begin) / n


def paired(plain, other, rounds):
    """Seconds of each, and the median of the ratios of neighbours."""
    a, b = [], []
    plain(), other()
    for _ in range(rounds):
        a.append(plain())
        b.append(other())
    return {"plain_s": statistics.median(a), "with_s": statistics.median(b),
            "least_plain_s": min(a), "least_with_s": min(b),
            "ratio": statistics.median(y / x for x, y in zip(a, b))}


def idle(rounds, n):
    """Loaded, but with no session: measured against a process without it."""
    x, y = torch.ones(1), torch.ones(1)
    before = [loop(lambda: x + y, n) for _ in range(rounds)]
    import dtrscope  # noqa: F401
    after = [loop(lambda: x + y, n) for _ in range(rounds)]
    return {"plain_s": statistics.median(before), "with_s": statistics.median(after),
            "least_plain_s": min(before), "least_with_s": min(after),
            "ratio": statistics.median(after) / statistics.median(before)}


def operators(context, rounds, n):
    x, y, w, z = torch.ones(1), torch.ones(1), torch.ones(1, requires_grad=True), torch.ones(8)
    cases = {"add": lambda: x + y, "add with grad": lambda: w + x, "view": lambda: z.view(2, 4),
             "cat of 8": lambda: torch.cat([x] * 8)}

    def within(case):
        with context():
            return loop(case, n)
    return {name: paired(lambda c=case: loop(c, n), lambda c=case: within(c), rounds)
            for name, case in cases.items()}


def steps(context, rounds, repeat, scale):
    """Forwards and backwards.  Scale 1: milliseconds a step, hundreds of operators; 8: as many, with more to do."""
    rows = {}
    for name in ("mlp", "cnn", "lstm", "transformer", "tree"):
        model = models.make(name, scale=scale)

        def run(model=model):
            for i in range(repeat):
                torch.manual_seed(i)
                model.zero_grad(set_to_none=True)
                model.loss(1).backward()

        def plain(run=run):
            begin = time.perf_counter()
            run()
            return (time.perf_counter() - begin) / repeat

        def within(run=run):
            begin = time.perf_counter()
            with context():
                run()
            return (time.perf_counter() - begin) / repeat
        rows[name if scale == 1 else f"{name}, {scale} times as wide"] = paired(plain, within, rounds)
    return rows


def cases(context, rounds, n, repeat):
    return {**operators(context, rounds, n), **steps(context, rounds, repeat, 1), **steps(context, rounds, 1, 8)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    rounds, n, repeat = (5, 2000, 2) if quick else (15, 20000, 5)
    results = {"torch": torch.__version__, "loaded and idle": {"add": idle(rounds, n)}}
    import dtrscope
    results["no budget"] = cases(lambda: dtrscope.budget(None), rounds, n, repeat)
    dtrscope.close()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "bench.dtr.sqlite")
        results["recorded"] = cases(lambda: dtrscope.budget(None, record=path), rounds, n // 4, repeat)
        dtrscope.close()
    results["closed"] = {"add": operators(contextlib.nullcontext, rounds, n)["add"]}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
