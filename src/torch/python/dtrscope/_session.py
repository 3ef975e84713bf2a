"""Budgets, recording, marks: what a program says to dtrscope."""
import atexit
import contextlib
import functools
import os
import re
import sys
import threading
import weakref

import torch

from . import _native, _patches

# The error of PyTorch's own allocators, so that code which handles running out of memory does so.
BudgetError = getattr(torch.cuda, "OutOfMemoryError", RuntimeError)


class ThrashError(RuntimeError):
    """Replays cost more than what was allowed; a larger budget or another heuristic helps."""


_UNITS = {"": 1, "B": 1, "K": 1000, "KB": 1000, "KIB": 1 << 10, "M": 10**6, "MB": 10**6,
          "MIB": 1 << 20, "G": 10**9, "GB": 10**9, "GIB": 1 << 30, "T": 10**12, "TB": 10**12,
          "TIB": 1 << 40}


def _bytes_of(size):
    if size is None or (isinstance(size, str) and size.strip().lower() == "none"):
        return None
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    if isinstance(size, int) and not isinstance(size, bool):
        if 0 < size < 1 << 63:
            return size
        raise ValueError(f"dtrscope: a budget of {size} bytes; it must be above 0 and below 8 EiB")
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(size))
    if isinstance(size, float) or not match or match[2].upper() not in _UNITS:
        raise ValueError(f"dtrscope: \"{size}\" is no budget; give bytes, as in \"6GiB\", or None")
    return _bytes_of(max(1, int(float(match[1]) * _UNITS[match[2].upper()])))


_ANY = (None, None, None, None, None, False)  # choices of one who has none


class _State:
    def __init__(self):
        self.lock = threading.RLock()
        self.depth = {}  # of contexts, a thread
        self.choices = None  # of the open session
        self.path = None  # where budgets record
        self.steps = 0
        self.pid = os.getpid()
        self.warned = False
        self.automatic = False  # the session is that of the whole program
        self.by_hand = False  # the program marks its iterations
        self.optimizer = None  # whose steps are iterations otherwise


_state = _State()


def _program():
    name = sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python"
    return os.path.basename(name)


def _environment(name):
    return os.environ.get(name) or None


def _in_words_of_python(text):
    """A message names options; here they are keywords."""
    text = text.replace("the program's settings: ", "")
    for option, keyword in (("--policy", "deallocation"), ("--remat-limit", "remat_limit"),
                            ("--output", "record"), ("--", "")):
        text = text.replace(option, keyword)
    return text


def _open(size, heuristic, search, deallocation, path, remat_limit, verify):
    _patches.install()
    _native.count_allocations()  # from now on; what was there before is not in the allocator's count
    try:
        _native.open_session(_program(), size, heuristic, search, deallocation, path,
                             remat_limit or "100x", verify or bool(_environment("DTR_VERIFY")))
    except RuntimeError as error:
        raise RuntimeError(_in_words_of_python(str(error))) from None
    _state.choices = (heuristic, search, deallocation, path, remat_limit, verify)
    _state.pid = os.getpid()
    _state.warned = False


def _ensure_session(size, heuristic, search, deallocation, path, remat_limit, verify):
    """Opens a session, or keeps the open one if it was opened with the same choices."""
    choices = (heuristic, search, deallocation, path, remat_limit, verify)
    if _native.is_open():
        if _state.automatic:  # what `dtrscope record` was told goes before what the program says
            if not _environment("DTR_BUDGET"):
                _native.set_budget(_native.NONE if size is None else size)
            return
        if choices == _state.choices or choices == _ANY:
            _native.set_budget(_native.NONE if size is None else size)
            return
        if any(_state.depth.values()):
            raise RuntimeError("dtrscope: a budget inside another one keeps its heuristic and its "
                               "file; only the number of bytes can differ")
        close()
    _open("none" if size is None else size, *choices)


class budget:
    """Runs what is inside within so many bytes of tensors.

    size: bytes, a text such as "6GiB", or None to record without evicting.  The bytes are those of
    all tensors that operators inside take or make, parameters included; scratch memory inside
    operators is not.  heuristic, search, deallocation, record, remat_limit: as the options of
    `dtrscope record`; the limit is 100x unless told otherwise.  verify: compares what was evicted with what comes back.

    Leaving the outermost one brings back every tensor that the program still holds.  Contexts of the
    same choices share one session, and one run in the file.
    """

    def __init__(self, size, heuristic=None, *, search=None, deallocation=None, record=None,
                 remat_limit=None, verify=False):
        self._size = _bytes_of(size)
        self._choices = (heuristic, search, deallocation, record or _state.path, remat_limit)
        self._verify = verify
        self._before = []

    def __enter__(self):
        with _state.lock:
            thread = threading.get_ident()
            depth = _state.depth.get(thread, 0)
            before = _native.get_budget() if _native.is_open() else None
            _ensure_session(self._size, *self._choices, self._verify)
            self._before.append(before if depth else None)
            _state.depth[thread] = depth + 1
            if depth == 0:
                _native.watch(1)
        return self

    def __exit__(self, kind, error, trace):
        with _state.lock:
            before = self._before.pop()
            self._leave(threading.get_ident(), before)
        if isinstance(error, RuntimeError) and str(error).startswith("dtrscope: thrashing"):
            raise ThrashError(str(error)) from error
        return False

    @staticmethod
    def _leave(thread, before):
        depth = _state.depth.get(thread, 0)
        if depth == 0:
            return  # the session was closed inside
        if depth > 1:
            _state.depth[thread] = depth - 1
            if before is not None and not (_state.automatic and _environment("DTR_BUDGET")):
                _native.set_budget(before)
            return
        del _state.depth[thread]
        _native.watch(0)
        if _native.is_open():
            end = _native.barrier if _state.depth else _native.stop_watching
            end("the budget ends")

    def __call__(self, function):
        @functools.wraps(function)
        def within(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)
        return within


def open_from_environment():
    """One budget around the whole program, as the environment describes it."""
    with _state.lock:
        _open(None, *_ANY)
        _state.automatic = True
        _mark_iteration(0)
        _native.mark(_native.FORWARD)
        _state.depth[threading.get_ident()] = 1
        _native.watch(1)


class record:
    """Names the file of the budgets that follow; as a context, records without a budget."""

    def __init__(self, path):
        self._path = os.fspath(path)
        self._before = _state.path
        self._context = None
        _state.path = self._path

    def __enter__(self):
        self._context = budget(None, record=self._path)
        self._context.__enter__()
        return self

    def __exit__(self, *error):
        result = self._context.__exit__(*error)
        _state.path = self._before
        close()
        return result


def close():
    """Ends the session: brings back every tensor, finishes the file."""
    with _state.lock:
        if not _native.is_open() or os.getpid() != _state.pid:
            return
        warn_if_thrashing()
        _native.watch(0)
        _state.depth.clear()
        _state.choices = None
        _state.automatic = False
        _native.close(*_result())


def _result():
    error = getattr(sys, "last_value", None)
    if error is None:
        return 0, None
    text = f"{type(error).__name__}: {error}"[:250]
    if "thrashing" in text:
        return _native.THRASHED, text
    if "out of memory" in text:
        return _native.OUT_OF_MEMORY, text
    return _native.FAILED, text


def _finish():
    """The program ends: nothing is brought back for it."""
    with _state.lock:
        if _native.is_open() and os.getpid() == _state.pid:
            warn_if_thrashing()
            _native.finish(*_result())


atexit.register(_finish)


def _look_at_allocator():
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        _native.allocator(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
    else:
        _native.allocator(0, 0)


def step(number=None):
    """Marks the beginning of an iteration."""
    if _native.is_open():
        _state.by_hand = True
        _mark_iteration(number)


def _mark_iteration(number=None):
    with _state.lock:
        number = _state.steps if number is None else int(number)
        _state.steps = number + 1
    _native.mark(_native.ITERATION, None, number)
    _look_at_allocator()
    warn_if_thrashing()


def _after_optimizer_step(optimizer):
    """Unless the program says where its iterations begin, they end with its first optimizer's step."""
    if _state.by_hand:
        return
    if _state.optimizer is None or _state.optimizer() is None:
        _state.optimizer = weakref.ref(optimizer)
    if _state.optimizer() is optimizer:
        _mark_iteration()


_patches.after_step = _after_optimizer_step
_patches.patch_pointers()


def phase(name):
    """Marks that "forward", "backward" or "optimizer" begins."""
    phases = {"forward": _native.FORWARD, "backward": _native.BACKWARD,
              "optimizer": _native.OPTIMIZER}
    if name not in phases:
        raise ValueError(f"dtrscope: \"{name}\" is no phase; there are {', '.join(phases)}")
    if _native.is_open():
        _native.mark(phases[name])


@contextlib.contextmanager
def range(name):
    """A named range of the program."""
    _native.mark(_native.RANGE_BEGIN, name)
    try:
        yield
    finally:
        _native.mark(_native.RANGE_END, name)


def stats():
    """The counters of the open session: of the runtime (dtr/runtime.h), and of the allocator."""
    return _native.stats()


def barrier(why="the program asked"):
    """Brings every tensor back and drops all histories."""
    _native.barrier(why)


def evict_all():
    """Evicts all that can be evicted now; returns how many storages."""
    return _native.evict_all()


def pin(tensor):
    """Brings a tensor back and keeps it for as long as it exists."""
    torch.ops.dtrscope.keep(tensor, "the program asked")
    return tensor


def is_resident(tensor):
    return torch.ops.dtrscope.is_resident(tensor)


def allow(name):
    """Trusts a custom operator ("namespace::name"): it may be replayed, since it is pure but for what
    its schema declares."""
    _native.allow(name)


def warn_if_thrashing():
    """Says once when replays cost more than the program itself."""
    if _state.warned or not _native.is_open():
        return
    counters = stats()
    first, again = counters["model_compute_ns"], counters["remat_compute_ns"]
    if again > 2 * first and again > 10**9:
        _state.warned = True
        print(f"dtrscope: thrashing: replays have cost {again / max(first, 1):.1f} times as much as "
              f"first runs ({again / 1e9:.1f} s). Raise the budget, or try another heuristic; "
              "`dtrscope sweep` on a recorded run shows what each would cost.", file=sys.stderr)
