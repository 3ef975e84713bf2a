"""Dynamic Tensor Rematerialization for PyTorch, recorded.

    with dtrscope.budget("6GiB", heuristic="dtr-eq"):
        ...                              # forward and backward; the optimizer may be in or out

Tensors stay ordinary tensors.  Under a budget, the bytes of storages are dropped and the operators
that made them are run again when they are needed; the numbers computed are the same, bit by bit.
Every operator, eviction and replay is recorded when a file is named, here or by `dtrscope record`.
"""
import sys as _sys

try:
    from ._session import (  # noqa: F401
        BudgetError,
        ThrashError,
        allow,
        barrier,
        budget,
        close,
        evict_all,
        is_resident,
        phase,
        pin,
        range,
        record,
        stats,
        step,
        warn_if_thrashing,
    )
    from ._native import version as __version__  # noqa: F401
except ImportError as _error:
    # The doctor, which is part of the package, is to say what is missing.
    if "dtrscope.doctor" not in getattr(_sys, "orig_argv", _sys.argv):
        if _error.name == "torch":
            raise ImportError(f"dtrscope: PyTorch does not import ({_error}); on Debian: apt install "
                              "python3-torch. `python3 -m dtrscope.doctor` says what is missing",
                              name="torch") from _error
        raise
