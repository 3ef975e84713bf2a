// How long an operator takes.  On the host: the clock.  On a device: a pair of events on the
// stream, whose distance is asked for later, when the device has passed them; nothing ever waits
// for it.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <chrono>
#include <deque>

extern "C" {
#include "base/clock.h"
}
#include "torch/session.h"

namespace dtrt
{

namespace
{

// Events are asked about through the runtime library that PyTorch has loaded.
using Elapsed = int (*)(float *, void *, void *);

Elapsed elapsed_function()
{
    static const Elapsed function = [] {
        void *f = dlsym(RTLD_DEFAULT, "cudaEventElapsedTime");
        if (!f) {
            void *library = dlopen("libcudart.so", RTLD_LAZY | RTLD_NOLOAD);
            for (const char *name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})
                library = library ? library : dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
            f = library ? dlsym(library, "cudaEventElapsedTime") : nullptr;
        }
        return reinterpret_cast<Elapsed>(f);
    }();
    return function;
}

struct Pair {
    void *start, *stop;
    c10::Device device;
    uint64_t estimate;
};

struct Events {
    std::mutex mutex;
    std::deque<Pair> running;
};

Events &events()
{
    static Events *e = new Events;
    return *e;
}

void *record(const c10::Device &device)
{
    c10::impl::VirtualGuardImpl guard(device.type());
    void *event = nullptr;
    guard.record(&event, guard.getStream(device), device.index(), c10::EventFlag::BACKEND_DEFAULT);
    return event;
}

void destroy(const c10::Device &device, void *event)
{
    if (event)
        c10::impl::VirtualGuardImpl(device.type()).destroyEvent(event, device.index());
}

} // namespace

void made_here(Node &node)
{
    if (!node.device.is_cpu())
        node.stream = c10::impl::VirtualGuardImpl(node.device.type()).getStream(node.device);
}

void used_here(Node &node, const c10::StorageImpl &storage)
{
    if (node.device.is_cpu())
        return;
    c10::impl::VirtualGuardImpl guard(node.device.type());
    c10::Stream here = guard.getStream(node.device);
    if (!node.stream || *node.stream != here)
        guard.recordDataPtrOnStream(storage.data_ptr(), here);
}

void remade_here(Node &node)
{
    if (node.device.is_cpu())
        return;
    c10::impl::VirtualGuardImpl guard(node.device.type());
    c10::Stream here = guard.getStream(node.device);
    if (!node.stream || *node.stream == here)
        return;
    void *event = nullptr;
    guard.record(&event, here, node.device.index(), c10::EventFlag::PYTORCH_DEFAULT);
    guard.block(event, *node.stream);
    guard.destroyEvent(event, node.device.index());
    if (auto storage = node.storage())
        guard.recordDataPtrOnStream(storage->data_ptr(), *node.stream);
}

int64_t now_ns()
{
    return dtri_clock_ns();
}

Stopwatch::Stopwatch(c10::optional<c10::Device> device) : device_(device)
{
    if (device_ && elapsed_function())
        start_ = record(*device_);
    begin_ = now_ns();
}

Stopwatch::~Stopwatch()
{
    if (device_) {
        destroy(*device_, start_);
        destroy(*device_, stop_);
    }
}

bool Stopwatch::stop(int64_t *out_ns)
{
    *out_ns = now_ns() - begin_;
    if (start_)
        stop_ = record(*device_);
    return !device_;
}

void Stopwatch::leave_for(uint64_t estimate)
{
    if (!start_ || !stop_)
        return;
    std::lock_guard<std::mutex> guard(events().mutex);
    events().running.push_back({start_, stop_, *device_, estimate});
    start_ = stop_ = nullptr;
}

void harvest()
{
    Events &e = events();
    std::lock_guard<std::mutex> guard(e.mutex);
    while (!e.running.empty()) {
        Pair pair = e.running.front();
        c10::impl::VirtualGuardImpl device(pair.device.type());
        if (!device.queryEvent(pair.stop))
            break; // later ones are later still, on this stream at least
        float ms = 0;
        if (elapsed_function()(&ms, pair.start, pair.stop) == 0) {
            Estimate &estimate = session().estimates[pair.estimate];
            estimate.runs++;
            estimate.cost += ((double)ms * 1e6 - estimate.cost) / (double)estimate.runs;
        }
        destroy(pair.device, pair.start);
        destroy(pair.device, pair.stop);
        e.running.pop_front();
    }
}

} // namespace dtrt
