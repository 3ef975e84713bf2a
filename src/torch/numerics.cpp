#include "torch/numerics.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace dtrt
{

namespace
{

// Bits of the word: switches from 0, those of devices from 8; a type, a number of threads, and the
// floating-point unit's modes.
enum {
    ONEDNN,
    DETERMINISTIC,
    WARN_ONLY,
    CUDNN = 8,
    BENCHMARK,
    CUDNN_DETERMINISTIC,
    CUDNN_TF32,
    TF32,
    DEVICE
};
enum { TYPE = 16, THREADS = 24, UNIT = 40 };
enum { UNIT_MODES = 0xe040 }; // of MXCSR: flush to zero, rounding, denormals are zero

uint64_t unit_modes()
{
#if defined(__SSE2__)
    return _mm_getcsr() & UNIT_MODES;
#else
    return 0;
#endif
}

void set_unit_modes(uint64_t modes)
{
#if defined(__SSE2__)
    _mm_setcsr((_mm_getcsr() & ~(unsigned)UNIT_MODES) | (unsigned)modes);
#else
    (void)modes;
#endif
}

uint64_t bit(bool on, int place)
{
    return (uint64_t)on << place;
}

bool has(uint64_t word, int place)
{
    return word >> place & 1;
}

uint64_t of_devices()
{
    const at::Context &context = at::globalContext();
    return bit(true, DEVICE) | bit(context.userEnabledCuDNN(), CUDNN) |
           bit(context.benchmarkCuDNN(), BENCHMARK) |
           bit(context.deterministicCuDNN(), CUDNN_DETERMINISTIC) |
           bit(context.allowTF32CuDNN(), CUDNN_TF32) | bit(context.allowTF32CuBLAS(), TF32);
}

void set_devices(uint64_t word)
{
    at::Context &context = at::globalContext();
    context.setUserEnabledCuDNN(has(word, CUDNN));
    context.setBenchmarkCuDNN(has(word, BENCHMARK));
    context.setDeterministicCuDNN(has(word, CUDNN_DETERMINISTIC));
    context.setAllowTF32CuDNN(has(word, CUDNN_TF32));
    context.setAllowTF32CuBLAS(has(word, TF32));
}

// Sets what differs between two words.
void change(uint64_t from, uint64_t to)
{
    at::Context &context = at::globalContext();
    const uint64_t differs = from ^ to;
    if (has(differs, ONEDNN))
        context.setUserEnabledMkldnn(has(to, ONEDNN));
    if (has(differs, DETERMINISTIC) || has(differs, WARN_ONLY))
        context.setDeterministicAlgorithms(has(to, DETERMINISTIC), has(to, WARN_ONLY));
    if (has(to, DEVICE) && (differs >> CUDNN & 0xff))
        set_devices(to);
    if (differs >> TYPE & 0xff)
        c10::set_default_dtype(c10::scalarTypeToTypeMeta((c10::ScalarType)(to >> TYPE & 0xff)));
    if (differs >> THREADS & 0xffff)
        at::set_num_threads((int)(to >> THREADS & 0xffff));
    if (differs >> UNIT & 0xffff)
        set_unit_modes(to >> UNIT & 0xffff);
}

} // namespace

uint64_t numerics(bool on_device)
{
    const at::Context &context = at::globalContext();
    return bit(context.userEnabledMkldnn(), ONEDNN) |
           bit(context.deterministicAlgorithms(), DETERMINISTIC) |
           bit(context.deterministicAlgorithmsWarnOnly(), WARN_ONLY) |
           (on_device ? of_devices() : 0) |
           (uint64_t)(uint8_t)c10::get_default_dtype_as_scalartype() << TYPE |
           (uint64_t)(uint16_t)at::get_num_threads() << THREADS | unit_modes() << UNIT;
}

NumericsOf::NumericsOf(uint64_t then) : now_(numerics(has(then, DEVICE))), then_(then)
{
    if (now_ != then_)
        change(now_, then_);
}

NumericsOf::~NumericsOf()
{
    if (now_ != then_)
        change(then_, now_);
}

} // namespace dtrt
