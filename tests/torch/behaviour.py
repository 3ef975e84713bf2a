"""What programs do with tensors under a budget: as plain PyTorch, or a clear error.

Each case computes the same with and without dtrscope, where everything that can be evicted is
evicted at the marked points; what it returns is compared bit by bit.  Each runs in a process of its
own, so that a crash is one failure.

    behaviour.py [CASE ...]     all by default; behaviour.py --list names them
"""
import contextlib
import copy
import functools
import gc
import io
import os
import pickle
import subprocess
import sys
import threading

try:
    import torch
    import dtrscope
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import torch.nn as nn
import torch.nn.functional as F

CASES = {}
TIGHT = {}  # under a budget that evicts, instead of marked points
active = False


def case(function):
    CASES[function.__name__] = function
    return function


def tight(function, size="1300KiB"):
    function.size = size
    TIGHT[function.__name__] = function
    return function


def evict():
    """A marked point."""
    if active:
        dtrscope.evict_all()


def counters():
    return dtrscope.stats() if active else None


def expect(condition, text):
    if active and not condition:
        raise AssertionError(text)


def both(function):
    """The case plain, then under dtrscope."""
    global active
    torch.manual_seed(0)
    plain = function()
    state = torch.get_rng_state()
    torch.manual_seed(0)
    active = True
    with dtrscope.budget(None):
        traced = function()
    active = False
    assert torch.equal(state, torch.get_rng_state()), "the next random numbers are others"
    return plain, traced


def equal(a, b):
    if isinstance(a, torch.Tensor):
        if a.is_sparse:
            a, b = a.to_dense(), b.to_dense()
        return a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride() and \
            torch.equal(torch.view_as_real(a) if a.is_complex() else a,
                        torch.view_as_real(b) if b.is_complex() else b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))
    return a == b


# --- views and in-place operators --------------------------------------------------------------

@case
def views():
    x = torch.randn(6, 8) * 2
    parts = [x.t(), x[1:3], x.view(8, 6), *x.chunk(2), x[:, ::2], x.unbind(0)[3], x.expand(2, 6, 8)]
    evict()
    return [p + 1 for p in parts] + [x]


@case
def in_place_through_a_view():
    x = torch.randn(6, 8) * 2
    y = x.exp()            # recorded before the write, replayed after it
    x[2].mul_(3)
    z = x.sin()
    x.t()[0] = 7
    evict()
    return [x, y, z, y + z]


@case
def in_place_chain():
    total, kept = torch.zeros(64) + 0, []
    for i in range(100):
        total += torch.full((64,), float(i)).sqrt()
        if i % 20 == 7:
            kept.append(total * 2)
            evict()
    evict()
    return kept + [total]


@case
def in_place_on_data():
    x = torch.randn(5) + 1
    y = x * 2
    x.data.add_(1)
    x.detach().mul_(2)
    evict()
    return [x, y]


@case
def version_k_after_version_n():
    x = torch.randn(32) + 0
    seen = []
    for _ in range(6):
        seen.append(x.cos())
        x.mul_(1.5)
    evict()
    return seen[::-1] + [x]


@case
def both_written_and_read():
    x = torch.randn(4, 4) + 0
    x.add_(x)
    x.mul_(x)
    torch.add(x, x, out=x)
    evict()
    return x


@case
def metadata_in_place():
    x = torch.randn(4, 6) + 0
    x.t_()
    x.unsqueeze_(0)
    evict()
    y = x.squeeze_() + 1
    evict()
    return [x, y]


@case
def resize():
    x = torch.randn(4) + 0
    evict()
    x.resize_(2)
    y = x * 3
    x.resize_(2, 2).zero_()
    evict()
    return [x, y]


@case
def out_arguments():
    a, b = torch.randn(8), torch.randn(8)
    out = torch.empty(8)
    torch.add(a, b, out=out)
    other = torch.zeros(16)
    torch.mul(a, b, out=other[:8])
    evict()
    return [out, other, out + 1]


@case
def foreach():
    xs = [torch.randn(3) + 0 for _ in range(5)]
    ys = torch._foreach_mul(xs, 2.0)
    torch._foreach_add_(xs, ys)
    evict()
    return xs + list(ys)


@case
def set_data():
    x, y = torch.randn(4) + 0, torch.randn(6) + 0
    z = x * 2
    x.data = y * 3
    evict()
    return [x, y, z]


# --- tensors made outside ----------------------------------------------------------------------

def made_outside():
    """Made where nobody looks: on a thread without a budget."""
    box = []
    thread = threading.Thread(target=lambda: box.append(torch.arange(12.0).reshape(3, 4)))
    thread.start()
    thread.join()
    return box[0]


@case
def a_plain_tensor_changes():
    results = []
    for change in (lambda p: p.add_(1), lambda p: p.data.add_(1), lambda p: p.detach().add_(1),
                   lambda p: p[1].add_(1), lambda p: p.copy_(torch.ones(3, 4)),
                   lambda p: p.t().mul_(2), lambda p: torch._foreach_add_([p], 1.0)):
        p = made_outside()
        q = p * 2
        before = counters()
        evict()
        change(p)
        expect(not active or counters()["barriers"] > before["barriers"], "no barrier")
        evict()
        results += [p, q, p * q]
    return results


# --- random numbers ----------------------------------------------------------------------------

@case
def random_numbers():
    generator = torch.Generator().manual_seed(5)
    made = [torch.rand(9), torch.randn(9), torch.randperm(9), torch.randint(9, (9,)),
            torch.bernoulli(torch.full((9,), 0.5)), torch.empty(9).uniform_(),
            torch.zeros(9).normal_(), torch.ones(9).bernoulli_(0.3),
            torch.multinomial(torch.ones(9), 4), torch.rand(9, generator=generator),
            torch.empty(9).exponential_(generator=generator), F.dropout(torch.ones(9), 0.5)]
    evict()
    return made + [torch.rand(3), torch.rand(3, generator=generator)]


@case
def memory_that_the_program_fills():
    made = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor(7), torch.as_tensor([[1, 2], [3, 4]]),
            torch.empty(3), torch.tensor([5.0, 6.0]).add_(1)]
    made[3][0], made[3][1], made[3][2] = 1, 2, 3
    evict()
    return made + [made[0] * 2]


# --- layers ------------------------------------------------------------------------------------

def batch_norm(**options):
    bn = nn.BatchNorm1d(6, **options)
    out = []
    for training in (True, True, False, True):
        bn.train(training)
        x = torch.randn(10, 6)
        y = bn(x)
        evict()
        out += [y, bn(x * 2)]
        evict()
    return out + [b.clone() for b in bn.buffers()]


@case
def batch_norm_made_inside():
    return batch_norm() + batch_norm(momentum=None) + batch_norm(affine=False) + \
        batch_norm(track_running_stats=False)


@case
def batch_norm_backward():
    bn = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    out = []
    for _ in range(3):
        x = torch.randn(3, 2, 8, 8, requires_grad=True)
        y = bn(x)
        evict()
        y.square().sum().backward()
        evict()
        out += [x.grad, *[p.grad.clone() for p in bn.parameters()]]
    return out + [b.clone() for b in bn.buffers()]


@case
def several_outputs():
    x = torch.randn(6, 6) + 0
    values, indices = x.max(1)
    u, s, v = torch.linalg.svd(x @ x.t() + torch.eye(6))
    a, b, c = x.split(2)
    lstm, h = nn.LSTM(6, 5), None
    y, (h, c2) = lstm(x.unsqueeze(1))
    del c2, v
    evict()
    return [values + 1, indices, s, (u * s) @ u.t(), a + b + c, y, h, *x.topk(3), *torch.sort(x)]


@case
def data_dependent():
    x = torch.randn(40) + 0
    out = []
    for i in range(5):
        x = x * 2 if x.mean().item() > 0 else x - 1
        evict()
    out += [x[x > 0], x.nonzero(), torch.unique(x.round())]
    evict()
    return out + [x.tolist(), bool((x > 0).any()), float(x.sum())]


@case
def indexing():
    x = torch.randn(8, 8) + 0
    x[x > 1] = 0
    x[[1, 2], :] = torch.ones(2, 8)
    x.index_add_(0, torch.tensor([0, 3]), torch.ones(2, 8))
    x.scatter_(1, torch.tensor([[0], [1]]), 9.0)
    y = x[torch.tensor([3, 1])], x.gather(1, torch.zeros(8, 1, dtype=torch.long))
    evict()
    return [x, *y, torch.where(x > 0, x, -x), F.embedding(torch.tensor([1, 2]), x)]


@case
def complex_numbers():
    x = torch.randn(8, dtype=torch.complex64) * 2
    y = x.conj() * x
    z = torch.fft.fft(x.real)
    x.imag.mul_(2)
    evict()
    return [x, y, z, torch.view_as_real(y), x.conj().clone()]


@case
def sparse():
    x = torch.eye(5) * 3
    s = x.to_sparse()
    evict()
    return [s, torch.sparse.mm(s, torch.ones(5, 2)), s.to_dense() + 1]


@case
def dtypes():
    out = []
    for dtype in (torch.float64, torch.bfloat16, torch.int8, torch.int64, torch.bool):
        x = (torch.randn(6) * 3).to(dtype)
        out += [x, x.to(torch.float32), x == x]
    evict()
    return out


@case
def empty_tensors():
    x = torch.zeros(0, 4) + 1
    y = torch.cat([x, torch.ones(2, 4)])
    evict()
    return [x, y, x.sum()]


# --- autograd ----------------------------------------------------------------------------------

@case
def gradient_of_a_gradient():
    x = torch.randn(5, requires_grad=True)
    y = (x ** 3).sum()
    g, = torch.autograd.grad(y, x, create_graph=True)
    evict()
    (g ** 2).sum().backward(retain_graph=True)
    first = x.grad.clone()
    evict()
    (g ** 2).sum().backward()
    return [g.detach(), first, x.grad]


@case
def hooks():
    log = []
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(lambda m, i, o: o * 2)
    layer.weight.register_hook(lambda g: log.append(g.clone()) or g * 3)
    (layer.register_full_backward_hook if hasattr(layer, "register_full_backward_hook")
     else layer.register_backward_hook)(lambda m, i, o: None)
    x = torch.randn(3, 4, requires_grad=True)
    y = layer(x).tanh()
    y.register_hook(lambda g: g + 1)
    evict()
    y.sum().backward()
    return [layer.weight.grad, x.grad, *log]


@case
def own_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y * x

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * 3 * y

    x = torch.randn(6, requires_grad=True)
    y = Cube.apply(x * 2)
    evict()
    y.sum().backward()
    return [y.detach(), x.grad]


@case
def checks_of_autograd_stay():
    x = torch.randn(4, requires_grad=True)
    y = x.exp()
    y.mul_(2) if False else None
    z = y * y
    y.detach().add_(1)
    try:
        z.sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return "no error"


@case
def autocast():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.randn(5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x)
        evict()
        loss = y.float().square().mean()
    loss.backward()
    return [y.detach(), *[p.grad for p in model.parameters()]]


@case
def checkpointing():
    from torch.utils.checkpoint import checkpoint
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.3)) for _ in range(3)]
    out = []
    for reentrant in (True, False):
        x = torch.randn(4, 8, requires_grad=True)
        y = x
        for layer in layers:
            y = checkpoint(layer, y, use_reentrant=reentrant)
            evict()
        y.sum().backward()
        evict()
        out += [x.grad, *[p.grad.clone() for layer in layers for p in layer.parameters()]]
    return out


@case
def accumulated_gradients():
    model = nn.Linear(6, 6)
    for _ in range(4):
        model(torch.randn(3, 6)).tanh().sum().backward()
        evict()
    return [p.grad for p in model.parameters()]


@case
def no_grad_and_inference():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4)).eval()
    with torch.no_grad():
        a = model(torch.randn(3, 4))
    evict()
    with torch.inference_mode():
        b = model(torch.randn(3, 4))
        c = b.reshape(-1) + 1
        b.add_(1)
        evict()
        d = b * 2
    return [a, b.clone(), c.clone(), d.clone()]


@case
def vmap():
    try:
        from torch.func import vmap as batched
    except ImportError:
        try:
            from functorch import vmap as batched
        except ImportError:
            return None
    x = torch.randn(5, 3) + 0
    y = batched(lambda row: row.sum() * row)(x)
    evict()
    return [x, y]


@case
def optimizer_inside():
    out = []
    for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
                 lambda p: torch.optim.Adam(p, lr=0.01),
                 lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
                 lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3, history_size=3)):
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = make(model.parameters())
        sizes = []

        def closure():
            optimizer.zero_grad()
            loss = model(torch.ones(4, 8)).square().mean()
            evict()
            loss.backward()
            evict()
            return loss
        for i in range(50):
            optimizer.step(closure)
            if active:
                counts = dtrscope.stats()
                sizes.append((counts["storages"], counts["in_use_bytes"]))
        expect(not active or max(sizes[9:]) == sizes[9], f"it grows: {sizes[9:]}")
        out += [p.detach().clone() for p in model.parameters()]
    return out


@case
def hand_written_optimizer():
    w = torch.randn(4, 4, requires_grad=True)
    for _ in range(5):
        loss = (torch.randn(3, 4) @ w).tanh().square().sum()
        evict()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
        evict()
    return [w.detach(), loss.detach()]


# --- memory that leaves ------------------------------------------------------------------------

@case
def numpy_held():
    x = torch.randn(50) * 2
    array = x.numpy()
    before = array.copy()
    for _ in range(3):
        evict()
        torch.randn(50) + 1
    expect((array == before).all(), "numpy's memory changed")
    array[0] = 3
    return [x, float(array.sum())]


@case
def pointers():
    x = torch.randn(20) * 2
    address = x.data_ptr()
    evict()
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(4) * 5))
    evict()
    return [x.data_ptr() == address, x, y, x.storage()[3] == x[3].item()]


@case
def printed_and_listed():
    x = torch.randn(6) * 2
    evict()
    text = str(x)
    evict()
    return [text, x.tolist(), repr(x.sum()), f"{x[0]:.3f}", len(x), x.numel()]


@case
def copied_and_pickled():
    x = torch.randn(6) * 2
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model(torch.randn(4, 3))
    evict()
    file = io.BytesIO()
    torch.save([x, model.state_dict()], file)
    file.seek(0)
    evict()
    y, state = torch.load(file)
    other = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    other.load_state_dict(state)
    evict()
    return [copy.deepcopy(x), copy.deepcopy(model).state_dict()["0.weight"],
            pickle.loads(pickle.dumps(x)), y, other(torch.ones(2, 3)), x.clone()]


@case
def from_numpy():
    import numpy
    x = torch.from_numpy(numpy.arange(6.0))
    y = x * 2
    evict()
    return [y, x + y, numpy.asarray(y).sum().item()]


# --- under a budget: what others write to, and what is not among the arguments ------------------

def results():
    """1.9 MiB computed from 64 KiB."""
    x = torch.randn(128, 128)
    return x, [torch.sin(x * i) for i in range(30)]


def sums(tensors):
    return [float(t.double().sum()) for t in tensors]


def changed_by(change):
    def run():
        x, ys = results()
        change(x)
        return [sums(ys), sums(torch.sin(x * i) for i in range(30)), x[0, :3]]
    return run


def through_numpy(x):
    x.numpy()[0] = 7


def through_an_array_that_stays(x):
    array = x.numpy()
    x.array = array  # as long as the tensor
    array[1] = 5


def through_from_numpy(x):
    torch.from_numpy(x.numpy())[0] = 7


def through_dlpack(x):
    torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))[0] = 7


def through_its_address(x):
    import ctypes
    ctypes.memset(x.data_ptr(), 0, 512)


def through_a_buffer(x):
    torch.frombuffer(x.numpy().data, dtype=torch.float32)[:9] = 7


def through_its_storage(x):
    x.storage()[0] = 7.


def in_place(x):
    x[0] = 7


for change in (through_numpy, through_an_array_that_stays, through_from_numpy, through_dlpack,
               through_its_address, through_a_buffer, through_its_storage, in_place):
    TIGHT["changed_" + change.__name__] = changed_by(change)


@tight
def a_buffer_used_again():
    """The usual loop of reinforcement learning: one array of numpy for all observations."""
    import numpy
    source = numpy.random.default_rng(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 64))
    observations, values = numpy.zeros((64, 64), dtype=numpy.float32), []
    with torch.no_grad():
        for _ in range(40):
            observations[:] = source.standard_normal(observations.shape)
            values.append(net(torch.from_numpy(observations)))
    return sums(values)


@tight
def an_array_from_before():
    array = before_the_budget.numpy()
    ys = [torch.sin(before_the_budget * i) for i in range(30)]
    array[0] += 1
    ys += [torch.sin(before_the_budget * i) for i in range(30)]
    array[0] -= 2
    result = sums(ys)
    array[0] += 1
    return result


before_the_budget = torch.ones(128, 128)


@tight
def a_constant_changed():
    ys = [torch.sin(before_the_budget * i) for i in range(30)]
    before_the_budget[0] += 1
    ys += [torch.sin(before_the_budget * i) for i in range(30)]
    before_the_budget[0] -= 1
    return sums(ys)


@tight
def a_buffer_changed_in_forward():
    state = torch.zeros(128, 128)
    ys, x = [], torch.randn(128, 128)
    for i in range(6):
        state.mul_(0.9).add_(x, alpha=0.1)
        ys += [torch.tanh(x + state * k) for k in range(5)]
    return [sums(ys), state]


@functools.partial(tight, size="2150KiB")
def packed_sequences():
    """Lengths and batch sizes are read through pointers that no operator tells of."""
    cell, lstm = nn.GRU(32, 64, 2, bidirectional=True), nn.LSTM(32, 64, 2)
    x = [torch.randn(k, 32) for k in (60, 44, 18, 8)]
    out = []
    for layer in (cell, lstm):
        packed = nn.utils.rnn.pack_sequence(x)
        y, lengths = nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
        y.square().sum().backward()
        out += [y.detach(), lengths, *(p.grad for p in layer.parameters())]
    return out


@tight
def split_points_and_lengths():
    out, rows = [], torch.randn(300, 30, 8) * 1
    for i in range(12):
        splits, table = torch.tensor([10, 40, 77]) * 1, torch.tensor([[30, 22, 9, 4], [3, 3, 3, 2]]) * 1
        noise = [torch.randn(128, 128) + 1 for _ in range(30)]
        out += torch.tensor_split(rows, splits)[1:2]
        out.append(F.ctc_loss((rows[:30].permute(1, 0, 2) * i).log_softmax(2)[:, :4],
                              torch.arange(12).reshape(4, 3) % 7 + 1, table[0], table[1]))
        del noise
    return out


def switched(on, off, compute):
    def run():
        try:
            on()
            ys = compute()
            off()
            return sums(ys)
        finally:
            off()
            torch.set_default_dtype(torch.float32)
    return run


def flush(on):
    return lambda: torch.set_flush_denormal(on)


def onednn(on):
    return lambda: torch._C._set_mkldnn_enabled(on)


def tiny():
    t = torch.full((128, 128), 1e-39)
    return [t * (i + 1) for i in range(40)]


def convolutions():
    x, w = torch.randn(4, 16, 32, 32), torch.randn(16, 16, 3, 3)
    return [F.conv2d(x * (i + 1), w, padding=1) for i in range(16)]


def quotients():
    t = torch.randint(0, 9, (128, 128))
    return [t / (i + 2) for i in range(40)]


TIGHT["denormals_flushed_later"] = switched(flush(False), flush(True), tiny)
TIGHT["onednn_off_at_first"] = switched(onednn(False), onednn(True), convolutions)
TIGHT["another_type_later"] = switched(lambda: None, lambda: torch.set_default_dtype(torch.float64), quotients)


@case
def fewer_threads_later():
    torch.set_num_threads(3)
    x = torch.randn(200, 1000) * 1
    y = [(x * i).sum() for i in range(5)]
    torch.set_num_threads(1)
    evict()
    other = [(x * i).sum() for i in range(5)]
    return [y, len([1 for a, b in zip(y, other) if a != b])]


# --- processes and threads ---------------------------------------------------------------------

class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = torch.arange(40.0).reshape(20, 2) * 3

    def __len__(self):
        return 20

    def __getitem__(self, i):
        return self.rows[i] + 1, i


@case
def data_loader():
    out = []
    for workers in (0, 2):
        rows = Rows()
        evict()
        for x, i in torch.utils.data.DataLoader(rows, batch_size=5, num_workers=workers):
            out.append(x * 2)
            evict()
        out.append(rows.rows)
    return out


@case
def closed_in_flight():
    """A thread works on while the session is closed and another one opened."""
    x = torch.randn(64, 64) * 2
    box, stop = [], []

    def work():
        y = x
        while not stop:
            y = (y @ x).tanh()
        box.append(y.shape)
    thread = threading.Thread(target=work)
    thread.start()
    if active:
        for _ in range(20):
            dtrscope.close()
            with dtrscope.budget(None):
                torch.ones(8, 8).exp()
                dtrscope.evict_all()
    stop.append(1)
    thread.join()
    return [x, list(box[0])]


@case
def lazy_modules():
    model = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(2))
    y = model(torch.randn(3, 5))
    evict()
    y.sum().backward()
    return [y.detach(), *[p.grad for p in model.parameters()]]


@case
def another_thread():
    x = torch.randn(100) * 2
    x = x.exp()
    evict()
    box = []

    def work():
        box.append(x.sum())
        y = x + 1
        box.append(y.mul_(2))
    threads = [threading.Thread(target=work) for _ in range(1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    evict()
    return [*box, x]


@case
def many_threads():
    """They share inputs that are evicted under their hands."""
    x = torch.randn(200) * 2
    made = [x.exp(), x.sin(), x * x]
    results = [None] * 4

    def work(k):
        with dtrscope.budget(None) if active else contextlib.nullcontext():
            total = torch.zeros(200)
            for i in range(200):
                total = total + made[i % 3] * (k + 1)
                if i % 10 == 0:
                    evict()
            results[k] = total
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@case
def forked():
    x = torch.randn(30) * 2
    evict()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, repr((x + 1).tolist()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    text = os.read(read, 1 << 16).decode()
    return [text == repr((x + 1).tolist()), x]


# --- errors ------------------------------------------------------------------------------------

@case
def an_operator_fails():
    x = torch.randn(4, 4) * 2
    evict()
    for _ in range(3):
        try:
            x @ torch.randn(5, 5)
        except RuntimeError:
            pass
        try:
            x.add_(torch.randn(7))
        except RuntimeError:
            pass
    evict()
    y = x * 2
    return [x, y.add_(1)]


def run_errors():
    """A budget below what one operator needs; then all works again."""
    x = torch.randn(1000)
    try:
        with dtrscope.budget(9000):
            y = x * 2
            y.exp()
    except dtrscope.BudgetError as error:
        assert "raise the budget" in str(error), error
    else:
        raise AssertionError("no error")
    assert torch.equal(y, x * 2)
    with dtrscope.budget("1MiB"):
        z = x * 3
        dtrscope.evict_all()
        assert not dtrscope.is_resident(z)
    assert torch.equal(z, x * 3)
    for bad in ("6 parsecs", -5, 0, "", 1.5j, 2**70, 1.5, "1e30", "99999999TiB", float("nan"), float("inf")):
        try:
            dtrscope.budget(bad)
        except ValueError:
            continue
        raise AssertionError(f"{bad} was taken")
    for bad in (dict(heuristic="best"), dict(search="psychic"), dict(deallocation="never")):
        dtrscope.close()
        try:
            with dtrscope.budget("1MiB", **bad):
                pass
        except RuntimeError as error:
            keyword, value = next(iter(bad.items()))
            assert value in str(error) and keyword in str(error) and "--" not in str(error), error
            continue
        raise AssertionError(f"{bad} was taken")


def run_memory():
    """What is evicted is really freed, and nothing stays behind."""
    dtrscope.close()
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())])
    model(torch.randn(256, 64)).square().sum().backward()  # whatever PyTorch allocates once
    model.zero_grad(set_to_none=True)
    gc.collect()
    before = dtrscope.stats()["allocator_in_use_bytes"]
    for size in (None, 700_000, 600_000):
        with dtrscope.budget(size):
            loss = model(torch.randn(256, 64)).square().sum()
            loss.backward()
        counters = dtrscope.stats()
        if size:
            assert counters["evictions"], counters
            assert counters["peak_bytes"] <= size or counters["overshoots"], counters
            # Parameters existed before: they count as tensors, and not as allocations of this run.
            assert counters["allocator_peak_bytes"] - before < size * 1.1, (size, counters)
        del loss
        model.zero_grad(set_to_none=True)
        dtrscope.close()
        gc.collect()
        after = dtrscope.stats()
        assert after["nodes"] == 0, after
        assert after["allocator_in_use_bytes"] == before, (before, after)


def run_verify():
    """An operator that is not pure is found, and named."""
    library = torch.library.Library("unsafe", "DEF")
    library.define("count(Tensor x) -> Tensor")
    calls = []

    def count(x):
        calls.append(1)
        return x + len(calls)
    library.impl("count", count, "CPU")
    with dtrscope.budget(None, verify=True):
        y = torch.ops.unsafe.count(torch.zeros(4))
        dtrscope.evict_all()
        assert dtrscope.is_resident(y), "a custom operator's output must be kept"
    assert dtrscope.stats()["hazards"] >= 1
    dtrscope.close()
    dtrscope.allow("unsafe::count")
    with dtrscope.budget(None, verify=True):
        y = torch.ops.unsafe.count(torch.zeros(4))
        z = torch.ones(4) * 2
        dtrscope.evict_all()
        assert not dtrscope.is_resident(y)
        y + z
        assert dtrscope.stats()["verify_mismatches"] == 1, dtrscope.stats()
    dtrscope.close()


def run_long_chain():
    """An LSTM of 5,000 steps finishes, or is told to be thrashing, with the remedy."""
    cell = nn.LSTMCell(32, 64)

    def train():
        h = c = torch.zeros(16, 64)
        for t in range(5000):
            h, c = cell(torch.ones(16, 32) * (t % 7), (h, c))
        h.sum().backward()
        return [p.grad.clone() for p in cell.parameters()]
    plain = train()
    cell.zero_grad(set_to_none=True)
    with dtrscope.budget(None):
        train()
    peak = dtrscope.stats()["peak_bytes"]
    dtrscope.close()
    for share in (0.8, 0.5):
        cell.zero_grad(set_to_none=True)
        try:
            with dtrscope.budget(int(peak * share), remat_limit="1s"):
                assert equal(plain, train())
            counters = dtrscope.stats()
            print(f"{share}: {counters['rematerializations']} replays")
            assert counters["rematerializations"] > 0
        except dtrscope.ThrashError as error:
            print(f"{share}: {error}")
            assert "raise the budget" in str(error)
            assert share <= 0.5
        dtrscope.close()


def run_recorded():
    """What the file says of a run: names, shapes, modules, phases, lines, barriers, hazards."""
    import sqlite3
    import tempfile
    tool = os.environ["DTRSCOPE_BIN"]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "run.dtr.sqlite")
        os.environ["DTR_STACKS"] = "4"
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with dtrscope.record(path):
            for step in range(3):
                dtrscope.step()
                with dtrscope.range("a step"):
                    model(torch.ones(4, 8)).sum().backward()
                    optimizer.step()
            torch.ones(3).add(1).numpy()

        def query(sql):
            return subprocess.run([tool, "query", "--format", "csv", path, sql], check=True,
                                  capture_output=True, text=True).stdout
        assert "aten::addmm" in query("select distinct name from operator_run")
        assert "Float[4,8]" in query("select name from signature")
        marks = query("select mark, name, value from mark")
        assert "Sequential.0" in marks and "a step" in marks
        assert "run_recorded (behaviour.py:" in query("select name from frame")
        assert "an optimizer step" in query("select name from barrier")
        assert "memory given out by numpy" in query("select name from hazard")
        assert query("select count(*) from allocator").split()[1] >= "4"
        subprocess.run([tool, "check", path], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([tool, "sim", "--heuristic", "dtr-eq", "--budget", "100%", path], check=True,
                       stdout=subprocess.DEVNULL)
        sqlite3.connect(path).execute("select * from run").fetchone()


def run_without_pytorch():
    """The doctor tells; importing fails with the remedy."""
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "torch.py"), "w") as file:
            file.write("raise ModuleNotFoundError('No module named torch', name='torch')\n")
        path = os.pathsep.join([directory, os.environ["PYTHONPATH"]])

        def say(*arguments):
            return subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": path})
        told = say("-m", "dtrscope.doctor")
        assert told.returncode == 1 and not told.stderr, told
        assert "apt install python3-torch" in told.stdout, told
        told = say("-c", "import dtrscope")
        assert "ImportError: dtrscope: PyTorch does not import" in told.stderr, told


def run_leaving():
    """Leaving a budget brings back what the program holds, and not much besides; ending the program
    brings back nothing."""
    x = torch.randn(64, 64)

    def chains():
        held = []
        for i in range(12):
            y = x + i
            for _ in range(20):
                y = torch.tanh(y * 1.01)
            held.append(y)
        return held
    plain = chains()
    with dtrscope.budget(10 * 16384):
        held = chains()
    counters = dtrscope.stats()
    assert all(torch.equal(a, b) for a, b in zip(plain, held))
    assert counters["peak_bytes"] <= (len(held) + 1) * 16384 * 1.5, counters
    dtrscope.close()
    script = ("import atexit, torch\n"
              "def late():\n"  # after dtrscope's own, which is registered later
              "  n = dtrscope.stats(); print(n['in_use_bytes'], n['evictions'], float(held[3].sum()))\n"
              "atexit.register(late)\n"
              "import dtrscope\n"
              "dtrscope.budget('1MiB').__enter__(); x = torch.ones(128, 128)\n"
              "held = [torch.sin(x * i) for i in range(60)]")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    in_use, evictions, value = done.stdout.split()
    assert int(in_use) <= 1 << 20 and int(evictions) > 0, done.stdout
    assert float(value) == float(torch.sin(torch.ones(128, 128) * 3).sum()), done.stdout


def run_what_holds():
    """Out of memory: which bytes are held, and why."""
    kept = [torch.ones(64, 64) for _ in range(3)]
    try:
        with dtrscope.budget(6 * 16384):
            y = torch.randn(64, 64) * 2
            arrays = [(k + y).numpy() for k in kept]
            torch.cat([y, y, y])
    except dtrscope.BudgetError as error:
        text = str(error)
        assert "in parameters, buffers and inputs (" in text, text
        assert "in memory given out by numpy (" in text, text
    else:
        raise AssertionError(f"no error with {len(arrays)} arrays")


def run_unbounded_lending():
    """Arrays that have gone are forgotten."""
    sizes = []
    with dtrscope.budget("1MiB"):
        for _ in range(2000):
            lent = torch.ones(100) + 1
            array = lent.numpy()
            assert (lent * 2 + torch.from_numpy(array)).sum() == 600
            sizes.append(torch.ones(100 + len(sizes) % 50))  # the next storage lies elsewhere
            del sizes[:-20]
        del lent, array
        x = torch.ones(100) * 3
        x.numpy()
        gc.collect()
        before = dtrscope.stats()["hazards"]
        x + 1
        assert dtrscope.stats()["hazards"] == before, "nobody has its memory any more"
        assert dtrscope.stats()["nodes"] < 50, dtrscope.stats()
    dtrscope.close()


WHOLE = {f.__name__: f for f in (run_errors, run_memory, run_verify, run_long_chain, run_recorded,
                                 run_without_pytorch, run_leaving, run_what_holds, run_unbounded_lending)}


def run_tight(function):
    torch.manual_seed(0)
    plain = function()
    torch.manual_seed(0)
    with dtrscope.budget(getattr(function, "size", "1300KiB")):
        traced = function()
        counts = dtrscope.stats()
    assert counts["evictions"] and counts["rematerializations"], counts
    assert equal(plain, traced), "other results"
    print(f"{counts['evictions']} evictions, {counts['rematerializations']} replays, "
          f"{counts['hazards']} hazards, peak {counts['peak_bytes']}")
    return 0


def run_one(name):
    torch.set_num_threads(1)
    if name in WHOLE:
        WHOLE[name]()
        return 0
    if name in TIGHT:
        return run_tight(TIGHT[name])
    plain, traced = both(CASES[name])
    counts = dtrscope.stats()
    dtrscope.close()
    assert equal(plain, traced), "other results"
    # What a case evicted last is brought back by the barrier that ends the budget.
    plain, traced = both(CASES[name])
    assert equal(plain, traced), "other results the second time"
    dtrscope.close()
    print(f"{counts['barriers']} barriers, {counts['rematerializations']} replays, "
          f"{counts['hazards']} hazards")
    return 0


def main():
    names = sys.argv[1:]
    if names == ["--list"]:
        print("\n".join([*CASES, *TIGHT, *WHOLE]))
        return 0
    if len(names) == 1:
        return run_one(names[0])
    failures = 0
    for name in names or [*CASES, *TIGHT, *WHOLE]:
        try:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), name],
                                  capture_output=True, text=True, timeout=900)
        except subprocess.TimeoutExpired as error:
            done = subprocess.CompletedProcess([], 1, "", str(error))
        good = done.returncode == 0
        failures += not good
        last = (done.stdout if good else done.stderr).strip().splitlines()
        print(f"{'ok  ' if good else 'FAIL'} {name}: {last[-1] if last else done.returncode}", flush=True)
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
