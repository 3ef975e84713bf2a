"""The PyTorch adapter on a GPU: run by torch.sh.  Ends with 77 where there is none."""
import contextlib
import os
import subprocess
import sys

try:
    import torch
    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no CUDA device")
    import dtrscope
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch"))
import models  # noqa: E402

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cudnn.benchmark = False


def train(name, context):
    with torch.device("cuda"):
        torch.cuda.manual_seed(0)
        torch.manual_seed(0)
        model = models.MODELS[name]()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
        out = []
        for step in range(3):
            with context():
                torch.manual_seed(100 + step)
                optimizer.zero_grad()
                loss = model.loss(step)
                loss.backward()
            optimizer.step()
            out.append(loss.detach().clone())
        return out + [p.grad.clone() for p in model.parameters()] + \
            [p.detach().clone() for p in model.parameters()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b))


def identical(name):
    plain = train(name, contextlib.nullcontext)
    if not same(plain, train(name, contextlib.nullcontext)):
        print(f"{name}: PyTorch alone does not compute the same twice here; left out")
        return
    torch.cuda.reset_peak_memory_stats()
    free = train(name, lambda: dtrscope.budget(None))
    peak = dtrscope.stats()["peak_bytes"]
    dtrscope.close()
    assert same(plain, free), f"{name}: other numbers without a budget"
    budget = int(peak * 0.75)
    tight = train(name, lambda: dtrscope.budget(budget, "dtr-eq"))
    counters = dtrscope.stats()
    dtrscope.close()
    assert same(plain, tight), f"{name}: other numbers within a budget"
    assert counters["evictions"] and counters["rematerializations"], counters
    assert counters["peak_bytes"] <= budget or counters["overshoots"], counters
    print(f"{name}: same bits within {budget} of {peak} bytes, {counters['evictions']} evictions, "
          f"{counters['rematerializations']} replays", flush=True)


def memory_is_freed():
    """The caching allocator's own peak falls with the budget."""
    def run(size):
        layers = torch.nn.Sequential(*[m for _ in range(24) for m in
                                       (torch.nn.Linear(1024, 1024), torch.nn.Tanh())]).cuda()
        x = torch.randn(4096, 1024, device="cuda")
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with dtrscope.budget(size) if size else contextlib.nullcontext():
            layers(x).square().mean().backward()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated(), before
    plain, before = run(None)
    size = before + (plain - before) * 7 // 10
    tight, _ = run(size)
    counters = dtrscope.stats()
    dtrscope.close()
    print(f"allocator's peak: {plain} without, {tight} within {size}; "
          f"{counters['evictions']} evictions")
    assert tight < size * 1.1 < plain


def costs_come_from_the_device():
    """A large product costs more than launching it takes, and nothing waits for it."""
    x = torch.randn(8192, 8192, device="cuda")
    with dtrscope.budget(None):
        for _ in range(20):
            y = x @ x
        torch.cuda.synchronize()
        z = x + 1
        del y, z
        clock = dtrscope.stats()["clock_ns"]
    dtrscope.close()
    print(f"20 products of 8192 cost {clock / 1e6:.1f} ms")
    assert clock > 5e6, clock


def streams_and_graphs():
    side = torch.cuda.Stream()
    with dtrscope.budget(None):
        x = torch.randn(1 << 20, device="cuda")
        y = x * 2
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.current_stream())
            z = y + 1
            dtrscope.evict_all()
            total = z.sum()
        torch.cuda.current_stream().wait_stream(side)
        assert torch.equal(total, (x * 2 + 1).sum())
        static = torch.ones(1024, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = static * 3
        static.fill_(2)
        graph.replay()
        assert (out == 6).all().item()
    dtrscope.close()
    print("streams and graphs: right")


def main():
    print(torch.__version__, torch.cuda.get_device_name())
    for name in ("mlp", "cnn", "transformer", "unet"):
        identical(name)
    memory_is_freed()
    costs_come_from_the_device()
    streams_and_graphs()
    tool = os.environ.get("DTRSCOPE_BIN")
    if tool:
        script = os.path.join(os.environ["DTRSCOPE_SOURCE"], "examples/torch/mnist.py")
        subprocess.run([tool, "record", "--force", "-o", "gpu.dtr.sqlite", "--", sys.executable, script,
                        "--device", "cuda", "--steps", "5"], check=True)
        subprocess.run([tool, "check", "gpu.dtr.sqlite"], check=True)
        subprocess.run([tool, "stats", "gpu.dtr.sqlite"], check=True)
    print("passed")


if __name__ == "__main__":
    sys.exit(main())
