"""The shared library, and its functions with their types."""
import ctypes
import os

import torch

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libdtr_torch.so")


def _load():
    if not os.path.exists(_PATH):
        raise ImportError(
            f"dtrscope: {_PATH} is missing; build it with ./setup.sh build where PyTorch and its "
            "headers are installed")
    try:
        torch.ops.load_library(_PATH)
    except OSError as error:
        raise ImportError(
            f"dtrscope: {_PATH} does not load ({error}); it serves only the PyTorch that it was "
            f"built with, and this one is {torch.__version__}: build it again") from error
    return ctypes.CDLL(_PATH)


_library = _load()


def _function(name, result, *arguments):
    function = getattr(_library, "dtrt_" + name)
    function.restype = result
    function.argtypes = list(arguments)
    return function


_text, _int, _long = ctypes.c_char_p, ctypes.c_int, ctypes.c_int64
_error = _function("error", _text)
_open = _function("open", _int, _text, _text, _text, _text, _text, _text, _text, _int)
_close = _function("close", _int, _int, _text)
_finish = _function("finish", _int, _int, _text)
_barrier = _function("barrier", _int, _text)
_set_budget = _function("set_budget", _int, _long)
_mark = _function("mark", None, _int, _text, _long)
_stats = _function("stats", _long, _text, _long)
_stop_watching = _function("stop_watching", _int, _text)
_allow = _function("allow", None, _text)

is_open = _function("is_open", _int)
get_budget = _function("budget", _long)
watch = _function("watch", None, _int)  # this thread's operators
evict_all = _function("evict_all", _long)
allocator = _function("allocator", None, _long, _long)
count_allocations = _function("count_allocations", None)
version = _function("version", _text)().decode()

NONE = -1  # DTR_NONE
OUT_OF_MEMORY, THRASHED, FAILED = -3, -4, -5  # dtr_status
ITERATION, FORWARD, BACKWARD, OPTIMIZER, RANGE_BEGIN, RANGE_END = 0, 1, 2, 3, 4, 5  # dtr_mark


def error():
    return _error().decode("utf-8", "replace")


def _bytes(text):
    return None if text is None else str(text).encode()


def check(status):
    if status:
        raise RuntimeError("dtrscope: " + error().replace("dtrscope: ", ""))


def open_session(program, budget, heuristic, search, deallocation, path, remat_limit, verify):
    check(_open(_bytes(program), _bytes(budget), _bytes(heuristic), _bytes(search),
                _bytes(deallocation), _bytes(path), _bytes(remat_limit), int(verify)))


def close(result=0, why=None):
    check(_close(result, _bytes(why)))


def finish(result=0, why=None):
    check(_finish(result, _bytes(why)))


def barrier(why):
    check(_barrier(_bytes(why)))


def stop_watching(why):
    check(_stop_watching(_bytes(why)))


def set_budget(size):
    check(_set_budget(size))


def mark(which, name=None, value=NONE):
    _mark(which, _bytes(name), value)


def allow(name):
    _allow(_bytes(name))


def stats():
    size = 4096
    out = ctypes.create_string_buffer(size)
    _stats(out, size)
    return {name: int(value) for name, value in
            (line.split() for line in out.value.decode().splitlines())}
