"""The whole program as one budget, as `dtrscope record` asks for it through the environment."""
import functools
import os
import sys
import threading

from . import _native, _session


def start():
    """Called once, when the program has imported PyTorch."""
    if not (os.environ.get("DTR_CHANNEL") or os.environ.get("DTR_RECORD")
            or os.environ.get("DTR_BUDGET")):
        return
    try:
        _session.open_from_environment()
    except Exception as error:
        print(f"dtrscope: PyTorch runs without it: {error}", file=sys.stderr)
        return
    _watch_threads()


def _watch_threads():
    """Threads of the program are looked at as well."""
    original = threading.Thread.run

    @functools.wraps(original)
    def run(self):
        _native.watch(1 if _native.is_open() else 0)
        try:
            original(self)
        finally:
            _native.watch(0)
    threading.Thread.run = run
