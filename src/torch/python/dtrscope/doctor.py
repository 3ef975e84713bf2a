"""python3 -m dtrscope.doctor: what works on this installation, and why not."""
import os
import sys


def _say(good, what, remedy=""):
    print(f"{'ok  ' if good else 'FAIL'}  {what}")
    if not good and remedy:
        print(f"      {remedy}")
    return good


def _torch():
    try:
        import torch
    except Exception as error:
        _say(False, f"PyTorch does not import: {error}", "On Debian: apt install python3-torch")
        return None
    _say(True, f"PyTorch {torch.__version__}, in {os.path.dirname(torch.__file__)}")
    return torch


def _package():
    try:
        import dtrscope
        import dtrscope._session  # noqa: F401  says what the package keeps to itself for this module
    except Exception as error:
        _say(False, f"the adapter does not load: {error}")
        return None
    _say(True, f"adapter {dtrscope.__version__}, in {os.path.dirname(dtrscope.__file__)}")
    return dtrscope


def _train(torch, context):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[layer for _ in range(4) for layer in
                                  (torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Dropout(0.5))])
    losses = []
    for _ in range(2):
        with context():
            loss = model(torch.randn(256, 64)).square().mean()
            loss.backward()
        losses.append(loss.detach().clone())
    return losses + [p.grad.clone() for p in model.parameters()]


def _same_numbers(torch, dtrscope):
    import contextlib
    plain = _train(torch, contextlib.nullcontext)
    free = _train(torch, lambda: dtrscope.budget(None))
    peak = dtrscope.stats()["peak_bytes"]
    dtrscope.close()
    tight = _train(torch, lambda: dtrscope.budget(int(peak * 0.7)))
    counters = dtrscope.stats()
    dtrscope.close()
    good = all(torch.equal(a, b) for a, b in zip(plain, free))
    _say(good, "recording without a budget gives the same bits")
    again = all(torch.equal(a, b) for a, b in zip(plain, tight))
    _say(again, f"training in 70 % of {peak} bytes gives the same bits "
         f"({counters['evictions']} evictions, {counters['rematerializations']} replays)")
    return good and again and _say(counters["evictions"] > 0, "the budget makes itself felt")


def _allocator(torch, dtrscope):
    with dtrscope.budget(None):
        before = dtrscope.stats()["allocator_in_use_bytes"]
        block = torch.empty(1 << 20)
        grown = dtrscope.stats()["allocator_in_use_bytes"] - before
    dtrscope.close()
    del block
    _say(grown >= 1 << 22, "the allocator of host memory is counted",
         "Its peak is not known; the runtime's own count of bytes is.")


def _devices(torch):
    if not torch.cuda.is_available():
        print("--    no CUDA device: training on the CPU only")
        return
    _say(True, f"CUDA: {torch.cuda.get_device_name()}")


def _stacks():
    import ctypes
    missing = [name for name in ("PyEval_GetFrame", "PyFrame_GetCode", "PyFrame_GetBack",
                                 "PyFrame_GetLineNumber")
               if not hasattr(ctypes.pythonapi, name)]
    _say(not missing, "Python lines of operators (DTR_STACKS=N)",
         f"this interpreter has no {', '.join(missing)}")


def _command():
    import shutil
    path = shutil.which("dtrscope")
    print(f"--    the dtrscope command: {path or 'not on PATH; call it by its place'}")


def main():
    print(f"ok    Python {sys.version.split()[0]}")
    torch = _torch()
    dtrscope = _package() if torch else None
    if not dtrscope:
        return 1
    good = _same_numbers(torch, dtrscope)
    _allocator(torch, dtrscope)
    _stacks()
    _devices(torch)
    _command()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
