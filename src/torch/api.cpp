// What the Python package calls: plain functions through ctypes, and operators where a tensor is an
// argument.
#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pthread.h>
#include <torch/library.h>

#include <cstdio>
#include <cstring>

#include "torch/session.h"
#include "torch/compat.h"

namespace dtrt
{
bool unmark(const at::Tensor &tensor);
void mark_again(const at::Tensor &tensor);
} // namespace dtrt

using namespace dtrt;

namespace
{

thread_local char last_error[DTR_ERROR_TEXT_BYTES + 64];

int fail(dtr_status status, const char *text)
{
    std::snprintf(last_error, sizeof last_error, "%s", text);
    return status;
}

// Runs `body` with the lock; what it throws becomes a status.
template <typename Body> int guarded(Body body)
{
    try {
        Busy busy;
        return body();
    } catch (const c10::OutOfMemoryError &e) {
        return fail(DTR_E_OUT_OF_MEMORY, e.what_without_backtrace());
    } catch (const c10::Error &e) {
        return fail(DTR_E_BACKEND, e.what_without_backtrace());
    } catch (const std::exception &e) {
        return fail(DTR_E_BACKEND, e.what());
    }
}

int no_session()
{
    return fail(DTR_E_STATE, "no session is open");
}

// A forked child has the parent's memory, but not its recorder, and no lock that it could trust.
void in_child()
{
    session().watching = false;
    session().number++; // what it inherits are strangers
    c10::impl::tls_set_dispatch_key_included(KEY, false);
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const char *dtrt_error()
{
    return last_error;
}

EXPORT const char *dtrt_version()
{
    return DTR_VERSION;
}

// Texts as in the environment (dtr/session.h); NULL: its default.
EXPORT int dtrt_open(const char *program, const char *budget, const char *heuristic,
                     const char *search, const char *deallocation, const char *record,
                     const char *remat_limit, int verify)
{
    return guarded([&] {
        Session &s = session();
        if (s.session)
            return fail(DTR_E_STATE, "a session is open already");
        static bool prepared;
        if (!prepared) {
            pthread_atfork(nullptr, nullptr, in_child);
            prepared = true;
        }
        dtr_session_options options;
        dtr_session_options_init(&options);
        options.backend = torch_backend();
        options.program = program;
        options.budget = budget;
        options.heuristic = heuristic;
        options.search = search;
        options.deallocation = deallocation;
        options.record = record;
        options.remat_limit = remat_limit;
        options.stack = python_stack;
        options.describe = python_describe;
        dtr_error error;
        dtr_status status = dtr_session_open(&options, &s.session, &error);
        if (status != DTR_OK)
            return fail(status, error.text);
        s.rt = dtr_session_runtime(s.session);
        s.stack_depth = dtr_session_stack_depth(s.session);
        s.budget = dtr_runtime_budget(s.rt);
        s.number++;
        begin_allocation_peak();
        s.verify = verify != 0;
        s.untracked = s.mismatches = 0;
        return (int)DTR_OK;
    });
}

EXPORT int dtrt_is_open()
{
    return session().session != nullptr;
}

EXPORT int dtrt_set_budget(int64_t bytes)
{
    return guarded([&] {
        Session &s = session();
        dtr_error error;
        if (!s.rt)
            return no_session();
        dtr_status status = dtr_set_budget(s.rt, bytes, &error);
        s.budget = dtr_runtime_budget(s.rt);
        // What cannot be evicted at once may go later.
        if (status != DTR_OK && status != DTR_E_OUT_OF_MEMORY)
            return fail(status, error.text);
        return (int)DTR_OK;
    });
}

EXPORT int64_t dtrt_budget()
{
    return session().budget;
}

// Operators of this thread, and on tensors that were made while watching, are looked at.
EXPORT void dtrt_watch(int on)
{
    if (on)
        session().watching = true;
    c10::impl::tls_set_dispatch_key_included(KEY, on != 0);
}

// Everything comes back; until it is watched again, nothing is looked at on any thread.
EXPORT int dtrt_stop_watching(const char *why)
{
    return guarded([&] {
        if (session().rt)
            barrier(why);
        session().watching = false; // not before: operators elsewhere would meet what is evicted
        return (int)DTR_OK;
    });
}

EXPORT int dtrt_barrier(const char *why)
{
    return guarded([&] {
        if (session().rt)
            barrier(why);
        return (int)DTR_OK;
    });
}

EXPORT int64_t dtrt_evict_all()
{
    int64_t n = 0;
    guarded([&] {
        if (session().rt)
            n = dtr_evict_all(session().rt);
        return (int)DTR_OK;
    });
    return n;
}

EXPORT void dtrt_mark(int which, const char *name, int64_t value)
{
    guarded([&] {
        Session &s = session();
        if (s.rt)
            dtr_mark_emit(s.rt, (dtr_mark)which, name ? s.name(name) : DTR_NONE, value);
        return (int)DTR_OK;
    });
}

// What the device's allocator counts, which the package asks for; the host's is counted here.
EXPORT void dtrt_allocator(int64_t device_in_use, int64_t device_peak)
{
    guarded([&] {
        Session &s = session();
        s.device_in_use = device_in_use;
        s.device_peak = device_peak;
        if (s.rt)
            dtr_allocator_emit(s.rt);
        return (int)DTR_OK;
    });
}

EXPORT void dtrt_count_allocations()
{
    count_allocations();
}

EXPORT void dtrt_allow(const char *name)
{
    allow_operator(name);
}

// Writes the counters as lines "name value"; returns the bytes needed.
EXPORT int64_t dtrt_stats(char *out, int64_t size)
{
    std::string text;
    guarded([&] {
        Session &s = session();
        dtr_stats stats{};
        if (s.rt) {
            sweep_externals();
            dtr_runtime_stats(s.rt, &stats);
        }
        auto add = [&](const char *name, int64_t value) {
            text += std::string(name) + " " + std::to_string(value) + "\n";
        };
#define ADD(name, unit, meaning) add(#name, stats.name);
        DTR_STATS_LIST(ADD)
#undef ADD
        int64_t in_use, peak;
        allocation_counts(&in_use, &peak);
        add("allocator_in_use_bytes", in_use + s.device_in_use);
        add("allocator_peak_bytes", peak + s.device_peak);
        add("untracked_outputs", s.untracked);
        add("verify_mismatches", s.mismatches);
        add("external_storages", (int64_t)s.externals.size());
        add("nodes", Node::alive.load());
        return (int)DTR_OK;
    });
    if (out && size > 0)
        std::snprintf(out, (size_t)size, "%s", text.c_str());
    return (int64_t)text.size() + 1;
}

// The program ends: the file is finished, and tensors that somebody still asks for come back as
// before.
EXPORT int dtrt_finish(int result, const char *why)
{
    return guarded([&] {
        Session &s = session();
        dtr_error error;
        if (!s.session)
            return (int)DTR_OK;
        dtr_allocator_emit(s.rt);
        if (why || result)
            dtr_session_set_result(s.session, (dtr_status)result, why ? why : "");
        dtr_status status = dtr_session_stop_recording(s.session, nullptr, &error);
        return status == DTR_OK ? (int)DTR_OK : fail(status, error.text);
    });
}

// Every tensor of the program is brought back and stays; the file is finished.
EXPORT int dtrt_close(int result, const char *why)
{
    return guarded([&] {
        Session &s = session();
        dtr_error error;
        if (!s.session)
            return (int)DTR_OK;
        dtr_status before = dtr_barrier(s.rt, s.name("the session ends"), &error);
        s.watching = false;
        if (before != DTR_OK)
            fail(before, error.text);
        dtr_allocator_emit(s.rt);
        if (why || result)
            dtr_session_set_result(s.session, (dtr_status)result, why ? why : "");
        s.closing = true;
        dtr_status status = dtr_session_close(s.session, nullptr, &error);
        s.closing = false;
        s.session = nullptr;
        s.rt = nullptr;
        s.budget = DTR_NONE;
        s.number++;
        s.externals.clear();
        s.snapshots.clear();
        s.estimates.clear();
        if (status != DTR_OK)
            return fail(status, error.text);
        return (int)before;
    });
}

// --- with a tensor ---

namespace
{

const c10::StorageImpl *storage_of(const at::Tensor &tensor)
{
    if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage())
        return nullptr;
    return tensor.storage().unsafeGetStorageImpl();
}

Node *known_node(const at::Tensor &tensor)
{
    const c10::StorageImpl *storage = storage_of(tensor);
    return session().rt && storage ? dtrt::known_node(storage) : nullptr;
}

void keep(const at::Tensor &tensor, std::string why)
{
    Busy busy;
    if (Node *node = known_node(tensor))
        keep_for_ever(node, why);
}

// A pointer to its memory leaves: what was computed from it depends on it no more.
void let_out(const at::Tensor &tensor, std::string why)
{
    Busy busy;
    if (Node *node = known_node(tensor)) {
        keep_for_ever(node, why);
        isolate(node, why);
    }
}

// An array of somebody else's uses its memory, for ever or until `take_back`.
void lend(const at::Tensor &tensor, std::string why, bool for_ever)
{
    let_out(tensor, why);
    Busy busy;
    const c10::StorageImpl *storage = storage_of(tensor);
    if (!storage)
        return;
    if (Node *node = known_node(tensor))
        node->foreign = true;
    if (!for_ever)
        session().lent[storage]++;
}

void take_back(const at::Tensor &tensor)
{
    Busy busy;
    Session &s = session();
    const c10::StorageImpl *storage = storage_of(tensor);
    auto found = s.lent.find(storage);
    if (found == s.lent.end() || --found->second > 0)
        return;
    s.lent.erase(found);
    if (Node *node = known_node(tensor))
        node->foreign = is_foreign(*storage);
}

bool is_resident(const at::Tensor &tensor)
{
    Busy busy;
    Node *node = known_node(tensor);
    return !node || node->resident;
}

// Brings it back for as long as it is borrowed.  False: there was nothing to do.
bool borrow(const at::Tensor &tensor)
{
    Busy busy;
    Node *node = known_node(tensor);
    dtr_error error;
    if (!node)
        return false;
    dtr_status status = dtr_hold(session().rt, &node->handle, 1, 0, &error);
    if (status != DTR_OK)
        raise(status, error);
    return true;
}

void give_back(const at::Tensor &tensor)
{
    Busy busy;
    if (Node *node = known_node(tensor))
        dtr_unhold(session().rt, &node->handle, 1);
}

int64_t storage_id(const at::Tensor &tensor)
{
    Busy busy;
    Node *node = known_node(tensor);
    dtr_tensor_info info;
    if (!node || dtr_tensor_info_of(session().rt, node->handle, &info) != DTR_OK)
        return -1;
    return info.storage;
}

} // namespace

TORCH_LIBRARY(dtrscope, m)
{
    m.def("keep(Tensor self, str why) -> ()",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(keep)));
    m.def("let_out(Tensor self, str why) -> ()",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(let_out)));
    m.def("lend(Tensor self, str why, bool for_ever) -> ()",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(lend)));
    m.def("take_back(Tensor self) -> ()",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(take_back)));
    m.def("is_resident(Tensor self) -> bool",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(is_resident)));
    m.def("borrow(Tensor self) -> bool",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(borrow)));
    m.def("give_back(Tensor self) -> ()",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(give_back)));
    m.def("storage_id(Tensor self) -> int",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(storage_id)));
    m.def("unmark(Tensor self) -> bool",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(unmark)));
    m.def("mark(Tensor self) -> ()",
          torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(mark_again)));
}
