"""Training under a budget gives the same bits as training without dtrscope.

Every model, at three budgets, with four heuristics, with SGD and Adam, the optimizer inside and
outside the budget: losses, gradients, parameters and buffers after three steps are equal bit by bit,
there were evictions and replays, and no more bytes were in use than the budget allows.  Where PyTorch alone
does not repeat itself, that is said and is no failure.

    identical.py [--quick] [--model M]     --quick: a part that meets every value of every choice
"""
import argparse
import contextlib
import itertools
import sys
import time

try:
    import torch
    import dtrscope
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import models

HEURISTICS = ["dtr-eq", "dtr", "lru", "size"]
SHARES = [0.75, 0.6, 0.5]
OPTIMIZERS = ["sgd", "adam"]
PLACES = ["outside", "inside"]
STEPS = 3
REPEATS = 30


def optimizer_of(name, model):
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return torch.optim.Adam(model.parameters(), lr=0.002)


def train(model_name, optimizer_name, context, inside):
    """What a run computes, each tensor copied."""
    model = models.make(model_name)
    optimizer = optimizer_of(optimizer_name, model)
    computed = []
    for step in range(STEPS):
        with context():
            torch.manual_seed(100 + step)
            optimizer.zero_grad()
            loss = model.loss(step)
            loss.backward()
            if inside:
                optimizer.step()
        if not inside:
            optimizer.step()
        computed.append(loss.detach().clone())
    computed += [p.grad.clone() for p in model.parameters() if p.grad is not None]
    computed += [t.detach().clone() for t in itertools.chain(model.parameters(), model.buffers())]
    computed.append(torch.get_rng_state())
    return computed


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


def floor_and_peak(model, optimizer, inside):
    """Bytes of what stays (constants at their most), and the peak without a budget."""
    least = []

    @contextlib.contextmanager
    def free():
        with dtrscope.budget(None):
            yield
        least.append(dtrscope.stats()["in_use_bytes"])
    train(model, optimizer, free, inside)
    peak = dtrscope.stats()["peak_bytes"]
    dtrscope.close()
    return max(least), peak


def train_within(sizes, share, heuristic, model, optimizer, inside):
    """At the share, or at the next larger one at which one operator fits and the heuristic does not
    thrash: those that do not look at costs do so on long chains.  Both are to be reported."""
    least, peak = sizes
    limit = "2s" if heuristic in ("lru", "size") else "30s"
    if model == "lstm":
        share += 0.1
    while True:
        size = int(least + share * (peak - least))
        try:
            computed = train(model, optimizer, lambda: dtrscope.budget(
                size, heuristic, remat_limit=limit), inside)
            counters = dtrscope.stats()
            return share, size, computed, counters
        except (dtrscope.ThrashError, dtrscope.BudgetError) as error:
            assert "raise the budget" in str(error)
            assert heuristic in ("lru", "size") or isinstance(error, dtrscope.BudgetError), error
            assert share < 0.94 or isinstance(error, dtrscope.ThrashError), error
            if share >= 0.94:
                return share, size, None, None
            share += 0.1
        finally:
            dtrscope.close()


def differs_alone(model, optimizer):
    """How many of REPEATS runs without dtrscope compute something else than the one before: some builds'
    kernels do not repeat themselves.  Memory lies elsewhere each time."""
    n, before, spread = 0, None, []
    for i in range(REPEATS):
        spread.append(torch.empty(1 + 997 * i % 5003))
        computed = train(model, optimizer, contextlib.nullcontext, False)
        n += before is not None and not same(before, computed)
        before = computed
    return n


def configurations(quick):
    for m, model in enumerate(models.MODELS):
        for s, share in enumerate(SHARES):
            for h, heuristic in enumerate(HEURISTICS):
                for o, optimizer in enumerate(OPTIMIZERS):
                    for p, place in enumerate(PLACES):
                        if not quick or (m + s + h) % 4 == 0 and (m + s + o + p) % 2 == 0 and \
                                (s + o) % 2 == 0:
                            yield model, share, heuristic, optimizer, place


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--model", choices=list(models.MODELS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    plain, peaks, unsteady, failures, n = {}, {}, {}, 0, 0
    for model, share, heuristic, optimizer, place in configurations(arguments.quick):
        if arguments.model not in (None, model):
            continue
        inside = place == "inside"
        if (model, optimizer) not in plain:
            plain[model, optimizer] = train(model, optimizer, contextlib.nullcontext, False)
        if (model, optimizer, inside) not in peaks:
            peaks[model, optimizer, inside] = floor_and_peak(model, optimizer, inside)
        begin = time.monotonic()
        share, size, computed, counters = train_within(
            peaks[model, optimizer, inside], share, heuristic, model, optimizer, inside)
        peak = peaks[model, optimizer, inside][1]
        if computed is None:
            n += 1
            print(f"{model:12} {heuristic:7} {optimizer:5} {place:8} thrashes, and says so", flush=True)
            continue
        faults = []
        notes = []
        if not same(plain[model, optimizer], computed):
            unsteady[model] = alone = unsteady.get(model) or differs_alone(model, optimizer)
            (notes if alone else faults).append(
                f"OTHER NUMBERS (PyTorch alone computes others in {alone} of {REPEATS} runs)")
        if not counters["evictions"] or not counters["rematerializations"]:
            faults.append("NO PRESSURE")
        if counters["peak_bytes"] > size and not counters["overshoots"]:
            faults.append("ABOVE THE BUDGET")
        n += 1
        failures += bool(faults)
        print(f"{model:12} {share:.2f} of {peak:9} {heuristic:7} {optimizer:5} {place:8}"
              f" {counters['evictions']:6} evictions {counters['rematerializations']:6} replays"
              f" {time.monotonic() - begin:5.1f} s  {', '.join(notes + faults) or 'same'}", flush=True)
    print(f"{n - failures} of {n} configurations passed")
    return 1 if failures or not n else 0


if __name__ == "__main__":
    sys.exit(main())
