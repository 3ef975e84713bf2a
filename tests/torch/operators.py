"""Every operator that PyTorch's own tests have samples of, under a budget of one byte.

Whatever can be evicted is evicted before each operator, and freed memory is overwritten: what keeps a
pointer to memory that has gone, or reads memory that is not there, gives other bits than without
dtrscope.  Forwards, and backwards where the operator has a gradient.

    operators.py [--quick] [--match TEXT] [--samples N]
"""
import argparse
import os
import sys
import types
import unittest
import warnings

PERTURB = "MALLOC_PERTURB_"
if __name__ == "__main__" and PERTURB not in os.environ:
    os.execve(sys.executable, [sys.executable, *sys.argv],
              {**os.environ, PERTURB: "165", "DTR_OVERSHOOT": "1", "DTR_REMAT_LIMIT": "0"})

try:
    import expecttest  # noqa: F401
except ImportError:  # PyTorch's list of samples imports it, and does not use it
    module = types.ModuleType("expecttest")
    module.TestCase, module.ACCEPT = unittest.TestCase, False
    sys.modules["expecttest"] = module

try:
    import torch
    from torch.utils._pytree import tree_flatten, tree_map
    import dtrscope
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Plain PyTorch does not repeat itself: memory that nobody wrote to, or another algorithm each time.
UNREPEATABLE = {"empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted"}


def copies(tree, grad):
    """Made anew by operators, so that they can be evicted and remade."""
    def copy(value):
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        made = value.detach() * 1 if value.dtype != torch.bool else value.detach() | False
        return made.requires_grad_() if grad and value.requires_grad else made
    return tree_map(copy, tree)


def plain_tensors(tree):
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def run(op, sample, grad):
    """Outputs and gradients."""
    torch.manual_seed(3)
    given = copies((sample.input, list(sample.args), dict(sample.kwargs)), grad)
    made = plain_tensors(op(given[0], *given[1], **given[2]))
    if not grad:
        return made
    roots = [t for t in made if t.requires_grad]
    leaves = [t for t in plain_tensors(given) if t.requires_grad]
    if not roots or not leaves:
        return made
    cotangents = [torch.full_like(t, 0.5) for t in roots]
    return made + [g for g in torch.autograd.grad(roots, leaves, cotangents, allow_unused=True)
                   if g is not None]


def snapshot(tensors):
    return [(t if t.layout == torch.strided else t.to_dense()).detach().clone() for t in tensors]


def bits(tensor):
    values = tensor.resolve_conj().resolve_neg().reshape(-1)
    return torch.empty(values.numel(), dtype=values.dtype).copy_(values).view(torch.uint8)


def same(a, b):
    return len(a) == len(b) and all(x.dtype == y.dtype and x.shape == y.shape and torch.equal(bits(x), bits(y))
                                    for x, y in zip(a, b))


def attempt(op, sample, grad):
    try:
        return snapshot(run(op, sample, grad)), None
    except Exception as error:  # whatever an operator says
        return None, error


def judge(op, sample, grad, counts):
    before, error = attempt(op, sample, grad)
    again, _ = attempt(op, sample, grad)
    if error or not same(before, again):
        counts["left out"] += 1
        return None
    try:
        with dtrscope.budget(1):
            after, error = attempt(op, sample, grad)
    except RuntimeError as leaving:
        error = leaving
    counts["tried"] += 1
    if error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    return None if same(before, after) else "other bits"


def samples_of(op, dtype, grad, n):
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    except Exception:
        return []
    step = max(1, len(samples) // n)
    return samples[::step][:n]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--match", default="")
    parser.add_argument("--samples", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts = {"tried": 0, "left out": 0}
    wrong = []
    names = set()
    for op in op_db:
        if options.match not in op.name or op.name in UNREPEATABLE:
            continue
        dtype = torch.float32 if torch.float32 in op.supported_dtypes("cpu") else torch.int64
        grad = dtype == torch.float32 and op.supports_autograd
        for sample in samples_of(op, dtype, grad, 1 if options.quick else options.samples):
            fault = judge(op, sample, grad, counts)
            names.add(op.name)
            if fault:
                wrong.append(op.name)
                print(f"FAILED {op.name} {op.variant_test_name}: {fault}", flush=True)
                break
    print(f"{len(names)} operators, {counts['tried']} samples tried, {counts['left out']} left out "
          f"(plain PyTorch refuses them or does not repeat itself), {len(wrong)} operators failed, "
          f"{dtrscope.stats()['rematerializations'] if counts['tried'] else 0} replays")
    return 1 if wrong or not counts["tried"] else 0


if __name__ == "__main__":
    sys.exit(main())
