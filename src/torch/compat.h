// What differs between the versions of PyTorch that one source serves (1.13 to 2.6).
#pragma once

#include <c10/core/DispatchKey.h>
#include <torch/version.h>

// The dispatch key on which operators are observed: below autograd, above every backend, and
// without a fallback of PyTorch's own.  CMake has made sure that it exists.
#ifndef DTR_TORCH_KEY
#define DTR_TORCH_KEY Fake
#endif

#define DTR_TORCH_AT_LEAST(major, minor)                                                           \
    (TORCH_VERSION_MAJOR > (major) ||                                                              \
     (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace dtrt
{
constexpr c10::DispatchKey KEY = c10::DispatchKey::DTR_TORCH_KEY;
}
