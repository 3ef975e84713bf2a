// What a kernel's result depends on beside its arguments: switches of the process and of the
// thread.
#pragma once

#include <cstdint>

namespace dtrt
{

// The switches of this thread, now: flushing of denormals and rounding, the default type, the
// number of threads, oneDNN on or off; and, for an operator on a device, those of cuDNN and cuBLAS.
uint64_t numerics(bool on_device);

// Sets them as they were, and back.  Some are the whole process's: other threads see them
// meanwhile.
class NumericsOf
{
  public:
    explicit NumericsOf(uint64_t then);
    ~NumericsOf();
    NumericsOf(const NumericsOf &) = delete;

  private:
    uint64_t now_, then_;
};

} // namespace dtrt
