"""Prints, for CMake, the version of the PyTorch of this Python, its C++ ABI, where its libraries are,
and where its headers are, or ends with a sentence that says what is missing."""
import os
import sys

try:
    import torch
except Exception as error:
    sys.exit(f"this Python has no PyTorch ({error}); on Debian: apt install python3-torch libtorch-dev")

home = os.path.dirname(torch.__file__)
own = os.path.join(home, "include")
includes = []
for place in (own, "/usr/include"):
    if os.path.exists(os.path.join(place, "torch/library.h")):
        includes = [place, os.path.join(place, "torch/csrc/api/include")]
        break
if not includes:
    sys.exit(f"the headers of PyTorch {torch.__version__} are missing; on Debian: apt install libtorch-dev")
libraries = os.path.join(home, "lib")
if not os.path.exists(os.path.join(libraries, "libc10.so")):
    for place in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"):
        if os.path.exists(os.path.join(place, "libc10.so")):
            libraries = place
            break
abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
print("|".join([torch.__version__, str(abi), libraries, *includes]))
