// A counter in front of PyTorch's allocator of host memory.
//
// What the runtime counts is the bytes of storages that it knows.  What the allocator gives out is
// more: scratch inside operators, rounding, tensors made where nobody looked.  The difference is
// worth showing, so both are counted.
#include <ATen/Context.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include "torch/session.h"
#include "torch/compat.h"

namespace dtrt
{

namespace
{

std::atomic<int64_t> in_use{0}, peak{0};
c10::Allocator *underneath;
c10::DeleterFnPtr delete_underneath;

void give_back(void *memory)
{
    in_use.fetch_sub((int64_t)malloc_usable_size(memory), std::memory_order_relaxed);
    delete_underneath(memory);
}

void count(void *memory)
{
    auto bytes = (int64_t)malloc_usable_size(memory);
    int64_t now = in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t most = peak.load(std::memory_order_relaxed);
    while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
}

struct CountingAllocator final : c10::Allocator {
#if DTR_TORCH_AT_LEAST(2, 3)
    c10::DataPtr allocate(size_t n) override
    {
        return counted(underneath->allocate(n));
    }
    void copy_data(void *to, const void *from, std::size_t n) const override
    {
        default_copy_data(to, from, n);
    }
#else
    c10::DataPtr allocate(size_t n) const override
    {
        return counted(underneath->allocate(n));
    }
#endif
    c10::DeleterFnPtr raw_deleter() const override
    {
        return &give_back;
    }

  private:
    static c10::DataPtr counted(c10::DataPtr memory)
    {
        void *data = memory.get();
        if (!data || memory.get_context() != data || memory.get_deleter() != delete_underneath)
            return memory; // of another kind: not ours to count
        count(data);
        memory.release_context();
        return {data, data, &give_back, memory.device()};
    }
};

} // namespace

void count_allocations()
{
    static CountingAllocator counting;
    if (underneath)
        return;
    underneath = c10::GetCPUAllocator();
    delete_underneath = underneath->raw_deleter();
    if (delete_underneath) // without it, what it gives out cannot be told apart
        c10::SetCPUAllocator(&counting, 100);
}

bool is_from_allocator(const c10::DataPtr &memory)
{
    static const c10::DeleterFnPtr usual = c10::GetDefaultCPUAllocator()->raw_deleter();
    c10::DeleterFnPtr deleter = memory.get_deleter();
    return deleter && (deleter == usual || deleter == delete_underneath || deleter == &give_back);
}

void begin_allocation_peak()
{
    peak.store(in_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void allocation_counts(int64_t *out_in_use, int64_t *out_peak)
{
    *out_in_use = in_use.load(std::memory_order_relaxed);
    *out_peak = peak.load(std::memory_order_relaxed);
}

} // namespace dtrt
