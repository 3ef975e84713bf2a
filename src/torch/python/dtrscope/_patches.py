"""What dtrscope changes in PyTorch's Python classes, once, when the first session opens.

Two things cannot be seen from below: pointers that leave (numpy, data_ptr, pickling), and where in
the program an operator belongs (module, phase, optimizer).
"""
import functools
import os
import threading
import weakref

import torch

from . import _native

_installed = False
after_step = None  # called with an optimizer that has made a step
_keep = torch.ops.dtrscope.keep
_let_out = torch.ops.dtrscope.let_out
_lend = torch.ops.dtrscope.lend
_take_back = torch.ops.dtrscope.take_back
_borrow = torch.ops.dtrscope.borrow
_give_back = torch.ops.dtrscope.give_back


def install():
    global _installed
    if _installed:
        return
    _installed = True
    _patch_new()
    _patch_autograd()
    _patch_optimizers()
    _patch_modules()
    _patch_graphs()
    os.register_at_fork(before=_before_fork)


def _plain(tensor):
    return not _native.is_open() or not isinstance(tensor, torch.Tensor)


# --- pointers that leave -----------------------------------------------------------------------

def _before(action, name, original, *more):
    """The memory is let out, or kept, before `original` hands it on."""
    why = "memory given out by " + name

    @functools.wraps(original)
    def patched(self, *arguments, **keywords):
        if not _plain(self):
            action(self, why, *more)
        return original(self, *arguments, **keywords)
    return patched


def _lent(name, original):
    """As long as the array lives, somebody may write into the memory; also after it left outside a session."""
    why = "memory given out by " + name

    @functools.wraps(original)
    def patched(self, *arguments, **keywords):
        if not isinstance(self, torch.Tensor) or self.layout != torch.strided:
            return original(self, *arguments, **keywords)
        alias = self.detach()
        _lend(alias, why, False)
        try:
            array = original(self, *arguments, **keywords)
            weakref.finalize(array, _take_back, alias).atexit = False
        except BaseException:
            _take_back(alias)
            raise
        return array
    return patched


def _borrowed(original):
    @functools.wraps(original)
    def patched(self, *arguments, **keywords):
        if _plain(self) or not _borrow(self):
            return original(self, *arguments, **keywords)
        try:
            return original(self, *arguments, **keywords)
        finally:
            _give_back(self)
    return patched


def patch_pointers():
    """Once, when the package is imported: what leaves before a session opens matters inside it."""
    for names, change in (
            (("numpy",), _lent),
            (("__dlpack__",), lambda name, original: _before(_lend, name, original, True)),
            (("data_ptr", "storage", "untyped_storage", "_storage", "_typed_storage"),
             lambda name, original: _before(_let_out, name, original)),
            (("share_memory_", "is_shared", "_reduce_ex_internal"),
             lambda name, original: _before(_keep, name, original))):
        for name in names:
            original = getattr(torch.Tensor, name, None)
            if original is not None:
                setattr(torch.Tensor, name, change(name, original))
    for name in ("tolist", "__deepcopy__"):
        setattr(torch.Tensor, name, _borrowed(getattr(torch.Tensor, name)))
    torch.utils.dlpack.to_dlpack = _before(_lend, "to_dlpack", torch.utils.dlpack.to_dlpack, True)


def _patch_new():
    """The legacy constructor takes the device from the highest dispatch key, which ours is."""
    original = torch.Tensor.new
    unmark, mark = torch.ops.dtrscope.unmark, torch.ops.dtrscope.mark

    @functools.wraps(original)
    def new(self, *arguments, **keywords):
        marked = unmark(self)
        try:
            return original(self, *arguments, **keywords)
        finally:
            if marked:
                mark(self)
    torch.Tensor.new = new


# --- phases ------------------------------------------------------------------------------------

_local = threading.local()


def _patch_autograd():
    def backward_phase(original):
        @functools.wraps(original)
        def patched(*arguments, **keywords):
            if not _native.is_open():
                return original(*arguments, **keywords)
            _native.mark(_native.BACKWARD)
            try:
                return original(*arguments, **keywords)
            finally:
                _native.mark(_native.FORWARD)
        return patched
    torch.autograd.backward = backward_phase(torch.autograd.backward)
    torch.autograd.grad = backward_phase(torch.autograd.grad)


def _patch_optimizers():
    original = torch.optim.Optimizer.__init__

    @functools.wraps(original)
    def patched(self, *arguments, **keywords):
        original(self, *arguments, **keywords)
        _watch_step(type(self))
    torch.optim.Optimizer.__init__ = patched
    for class_ in _subclasses(torch.optim.Optimizer):
        _watch_step(class_)


def _subclasses(class_):
    for sub in class_.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _watch_step(class_):
    """An optimizer changes parameters in place: once nothing depends on them, that costs nothing."""
    if "step" not in class_.__dict__ or getattr(class_.step, "_dtrscope", False):
        return
    original = class_.step

    @functools.wraps(original)
    def step(self, *arguments, **keywords):
        if not _native.is_open() or getattr(_local, "in_step", False):
            return original(self, *arguments, **keywords)
        _native.barrier("an optimizer step")
        _native.mark(_native.OPTIMIZER)
        _local.in_step = True
        try:
            return original(self, *arguments, **keywords)
        finally:
            _local.in_step = False
            if after_step:
                after_step(self)
            _native.mark(_native.FORWARD)
    step._dtrscope = True
    class_.step = step


# --- modules -----------------------------------------------------------------------------------

_paths = weakref.WeakKeyDictionary()  # of the modules seen, from the outermost one called


def _learn(root):
    name = type(root).__name__
    for path, module in root.named_modules():
        _paths.setdefault(module, f"{name}.{path}" if path else name)
    # Parameters and buffers are what training keeps: constants, before anything depends on them.
    for tensor in list(root.parameters()) + list(root.buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            continue  # it has no memory yet
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
            _keep(tensor.detach(), "")


def _patch_modules():
    original = torch.nn.Module.__call__
    begin, end = _native.RANGE_BEGIN, _native.RANGE_END

    @functools.wraps(original)
    def patched(self, *arguments, **keywords):
        if not _native.is_open():
            return original(self, *arguments, **keywords)
        path = _paths.get(self)
        if path is None:
            _learn(self)
            path = _paths[self]
        _native.mark(begin, path)
        try:
            return original(self, *arguments, **keywords)
        finally:
            _native.mark(end, path)
    torch.nn.Module.__call__ = patched


# --- graphs and forks --------------------------------------------------------------------------

def _patch_graphs():
    """A captured graph is replayed with the addresses of its capture: nothing moves meanwhile."""
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is None or not hasattr(graph, "capture_begin"):
        return
    begin, end = graph.capture_begin, graph.capture_end

    def capture_begin(self, *arguments, **keywords):
        if _native.is_open():
            _native.stop_watching("a CUDA graph is captured")
            self._dtrscope = True
        return begin(self, *arguments, **keywords)

    def capture_end(self, *arguments, **keywords):
        result = end(self, *arguments, **keywords)
        if getattr(self, "_dtrscope", False) and _native.is_open():
            _native.watch(1)
        return result
    try:
        graph.capture_begin, graph.capture_end = capture_begin, capture_end
    except TypeError:
        pass  # a class of C that cannot be changed: PyTorch without CUDA


def _before_fork():
    """A child cannot replay: it gets every tensor as it is."""
    if _native.is_open():
        _native.barrier("a process forks")
