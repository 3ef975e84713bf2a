"""Started by Python itself under `dtrscope record`: waits until the program imports PyTorch."""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys


def _run_the_other_one():
    """Another sitecustomize, which this one hides, is to run as ever."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class _Torch(importlib.abc.MetaPathFinder):
    """Finds PyTorch where it is, and starts recording when it has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec and spec.loader and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            from dtrscope import _auto
        except Exception as error:
            print(f"dtrscope: PyTorch runs without it: {error}", file=sys.stderr)
        else:
            _auto.start()


if os.environ.get("DTR_TORCH") != "0":
    sys.meta_path.insert(0, _Torch())
_run_the_other_one()
