#include "torch/session.h"

#include <ATen/ATen.h>
#include <ATen/MapAllocator.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dtrt
{

namespace
{

thread_local int depth; // of Busy on this thread

void release(Session &s, Node *node)
{
    if (node->session == s.number && s.rt && node->handle != DTR_NO_TENSOR)
        dtr_release(s.rt, node->handle);
}

void drain(Session &s)
{
    while (s.n_waiting.load(std::memory_order_acquire)) {
        std::vector<c10::intrusive_ptr<Node>> nodes;
        {
            std::lock_guard<std::mutex> guard(s.waiting_lock);
            nodes.swap(s.waiting);
            s.n_waiting.store(0, std::memory_order_release);
        }
        for (auto &node : nodes)
            release(s, node.get());
    }
}

// Does what had to wait, and frees recipes where nobody waits for the lock.
void unlock(Session &s)
{
    drain(s);
    std::vector<Recipe *> dropped;
    dropped.swap(s.dropped);
    depth = 0;
    s.lock.unlock();
    for (Recipe *recipe : dropped)
        delete recipe;
}

} // namespace

Session &session()
{
    static Session *s = new Session; // tensors may outlive static objects
    return *s;
}

Busy::Busy()
{
    if (depth++ == 0)
        session().lock.lock();
}

Busy::~Busy()
{
    Session &s = session();
    if (depth > 1) {
        depth--;
        return;
    }
    unlock(s);
}

void let_go(c10::intrusive_ptr<Node> node, c10::DataPtr &&bytes)
{
    Session &s = session();
    if (bytes.get())
        node->orphan = std::move(bytes);
    node->done.store(true, std::memory_order_release);
    if (node->session != s.number)
        return;
    if (depth == 0 && s.lock.try_lock()) {
        depth = 1;
        release(s, node.get());
        unlock(s);
        return;
    }
    std::lock_guard<std::mutex> guard(s.waiting_lock);
    s.waiting.push_back(std::move(node));
    s.n_waiting.store(s.waiting.size(), std::memory_order_release);
}

int64_t Session::name(const char *text)
{
    return rt ? dtr_runtime_name(rt, text) : DTR_NONE;
}

void raise(dtr_status status, const dtr_error &error, const char *during)
{
    const std::string text = (during ? std::string(during) + ": " : "") + error.text;
    if (status == DTR_E_OUT_OF_MEMORY)
        TORCH_CHECK_WITH(OutOfMemoryError, false,
                         "dtrscope: out of memory under the budget: ", text);
    if (status == DTR_E_THRASHED)
        TORCH_CHECK(false, "dtrscope: thrashing: ", text);
    TORCH_CHECK(false, "dtrscope: ", text);
}

void drop_recipe(void *recipe)
{
    session().dropped.push_back(static_cast<Recipe *>(recipe));
}

// --- nodes ---

static void adopt_constant(Node &node, const char *cause);

// Shared memory of PyTorch's own: batches come so from the workers of a DataLoader.
static bool is_shared_by_pytorch(const c10::DataPtr &memory)
{
    if (at::MapAllocator::fromDataPtr(memory) || at::RefcountedMapAllocator::fromDataPtr(memory))
        return true;
    Dl_info info;
    auto deleter = reinterpret_cast<void *>(memory.get_deleter());
    return deleter && dladdr(deleter, &info) && std::strstr(info.dli_fname, "libshm.");
}

bool is_foreign(const c10::StorageImpl &storage)
{
    const c10::DataPtr &memory = storage.data_ptr();
    if (!storage.device().is_cpu() || !memory.get() || !storage.nbytes())
        return false;
    return !is_from_allocator(memory) && !is_shared_by_pytorch(memory);
}

Node *known_node(const c10::StorageImpl *storage)
{
    Session &s = session();
    auto *impl = const_cast<c10::StorageImpl *>(storage);
    TrackedStorage *tracked = as_tracked(impl);
    if (tracked && tracked->node && tracked->node->session == s.number)
        return tracked->node.get();
    auto found = s.externals.find(impl);
    return found == s.externals.end() ? nullptr : found->second.get();
}

Node *node_of(c10::StorageImpl *storage)
{
    Session &s = session();
    if (Node *known = known_node(storage))
        return known;
    if (s.externals.size() >= s.sweep_at) {
        sweep_externals();
        s.sweep_at = std::max<size_t>(64, 2 * s.externals.size());
    }
    auto strong = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
    auto node = c10::make_intrusive<Node>(c10::weak_intrusive_ptr<c10::StorageImpl>(strong),
                                          storage->nbytes(), storage->device(), s.number);
    node->external = true;
    node->foreign = is_foreign(*storage) || s.lent.count(storage);
    adopt_constant(*node, node->foreign ? "memory that is not PyTorch's"
                                        : "parameters, buffers and inputs");
    Node *raw = node.get();
    s.externals.emplace(storage, std::move(node));
    return raw;
}

void sweep_externals()
{
    Session &s = session();
    for (auto it = s.externals.begin(); it != s.externals.end();) {
        if (it->second->impl.expired()) {
            release(s, it->second.get());
            s.snapshots.erase(it->first);
            it = s.externals.erase(it);
        } else {
            ++it;
        }
    }
}

void forget(Node *node)
{
    Session &s = session();
    dtr_tensor handle = node->handle;
    node->handle = DTR_NO_TENSOR;
    node->resident = false;
    node->slot->unbind();
    dtr_release(s.rt, handle);
}

void barrier(const std::string &why)
{
    Session &s = session();
    dtr_error error;
    sweep_externals();
    dtr_status status = dtr_barrier(s.rt, s.name(why.c_str()), &error);
    if (status != DTR_OK)
        raise(status, error);
}

// A node that has its bytes, not the program's: a constant, with one reference.
static void adopt_constant(Node &node, const char *cause)
{
    Session &s = session();
    node.resident = true;
    Slot *slot = Slot::for_node(&node);
    dtr_error error;
    dtr_status status = dtr_adopt_constant(s.rt, (int64_t)node.nbytes, slot, &node.handle, &error);
    if (status != DTR_OK) {
        slot->unbind();
        delete slot;
        raise(status, error);
    }
    dtr_set_cause(s.rt, node.handle, s.name(cause));
}

static void own(Node &node, c10::intrusive_ptr<c10::StorageImpl> bytes)
{
    node.impl.reset();
    node.shadow = std::move(bytes);
    node.external = node.foreign = false;
    node.done = true;
}

// Those that nothing is replayed from any more.
static void sweep_snapshots()
{
    Session &s = session();
    for (auto it = s.snapshots.begin(); it != s.snapshots.end();)
        it = it->second && it->second->resident ? std::next(it) : s.snapshots.erase(it);
    s.sweep_snapshots_at = std::max<size_t>(16, 2 * s.snapshots.size());
}

c10::intrusive_ptr<Node> snapshot_of(Node *node, bool *out_is_new)
{
    Session &s = session();
    auto storage = node->storage();
    if (s.snapshots.size() >= s.sweep_snapshots_at)
        sweep_snapshots();
    c10::intrusive_ptr<Node> &last = s.snapshots[storage.get()];
    dtr_tensor_info info;
    *out_is_new = false;
    if (last && last->session == s.number && last->resident &&
        dtr_tensor_info_of(s.rt, last->handle, &info) == DTR_OK && last->nbytes == node->nbytes &&
        !std::memcmp(last->shadow->data_ptr().get(), storage->data_ptr().get(), node->nbytes))
        return last;
    auto made = c10::make_intrusive<Node>(c10::weak_intrusive_ptr<c10::StorageImpl>(storage),
                                          node->nbytes, node->device, s.number);
    own(*made, copy_bytes(storage));
    adopt_constant(*made, "copies of memory that others may change");
    hazard(node, "memory that others may change: replays read a copy");
    *out_is_new = true;
    last = made;
    return made;
}

// The program's storage gets a new node; the old one keeps a copy, for those that are replayed from
// it.
static Node *set_apart(Node *old, const std::string &why)
{
    Session &s = session();
    auto storage = old->storage();
    auto copy = copy_bytes(storage);
    auto fresh = c10::make_intrusive<Node>(c10::weak_intrusive_ptr<c10::StorageImpl>(storage),
                                           old->nbytes, old->device, s.number);
    fresh->external = old->external;
    fresh->foreign = old->foreign;
    fresh->stream = old->stream;
    adopt_constant(*fresh, "parameters, buffers and inputs");
    dtr_set_cause(s.rt, old->handle, s.name("copies of what was changed"));
    hazard(fresh.get(), why);
    own(*old, std::move(copy));
    const dtr_tensor handle = old->handle;
    old->handle = DTR_NO_TENSOR;
    Node *now = fresh.get();
    if (TrackedStorage *tracked = as_tracked(storage.get()); tracked && !now->external)
        tracked->node = std::move(fresh);
    else
        s.externals[storage.get()] = std::move(fresh);
    dtr_release(s.rt, handle);
    return now;
}

Node *isolate(Node *node, const std::string &why)
{
    Session &s = session();
    dtr_error error;
    const int64_t bytes = dtr_isolation_bytes(s.rt, node->handle);
    if (dtr_dependents(s.rt, node->handle) == 0)
        return node;
    if (s.budget != DTR_NONE && bytes > (int64_t)node->nbytes)
        return set_apart(node, why);
    dtr_status status = dtr_isolate(s.rt, node->handle, s.name(why.c_str()), &error);
    if (status != DTR_OK)
        raise(status, error);
    return node;
}

void hazard(Node *node, const std::string &why)
{
    Session &s = session();
    dtr_hazard_emit(s.rt, node ? node->handle : DTR_NO_TENSOR, s.name(why.c_str()));
}

void keep_for_ever(Node *node, const std::string &why, const char *cause)
{
    Session &s = session();
    dtr_tensor_info info;
    dtr_error error;
    if (dtr_tensor_info_of(s.rt, node->handle, &info) != DTR_OK || info.constant)
        return;
    dtr_status status = dtr_make_constant(s.rt, node->handle, &error);
    if (status != DTR_OK)
        raise(status, error);
    dtr_set_cause(s.rt, node->handle, s.name(why.empty() ? cause : why.c_str()));
    if (!why.empty())
        hazard(node, why);
}

// --- what the runtime calls: replays and evictions ---

namespace
{

uint64_t hash_of(Node &node)
{
    auto storage = node.storage();
    at::Tensor bytes;
    const auto *data = static_cast<const unsigned char *>(storage->data_ptr().get());
    if (!storage->device().is_cpu()) {
        auto options = at::TensorOptions().dtype(at::kByte).device(storage->device());
        bytes = at::empty({0}, options);
        bytes.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(storage));
        bytes.unsafeGetTensorImpl()->set_sizes_contiguous({(int64_t)node.nbytes});
        bytes = bytes.cpu();
        data = static_cast<const unsigned char *>(bytes.data_ptr());
    }
    uint64_t h = node.nbytes, word;
    size_t i = 0;
    for (; i + 8 <= node.nbytes; i += 8) {
        std::memcpy(&word, data + i, 8);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    for (; i < node.nbytes; i++)
        h = (h ^ data[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return h;
}

dtr_status backend_alloc(void *, int64_t, void **out_data, dtr_error *)
{
    *out_data = new Slot; // bound by the run
    return DTR_OK;
}

void backend_free(void *, void *data, int64_t)
{
    Slot *slot = static_cast<Slot *>(data);
    Node *node = slot->node;
    if (node && !node->external && !(session().closing && !node->done)) {
        if (session().verify && !node->done) {
            node->hash = hash_of(*node);
            node->hashed = true;
        }
        node->take_out();
    } else if (node) {
        node->resident = false;
    }
    slot->unbind();
    delete slot;
}

void check_replay(Session &s, Recipe &recipe, Node &node)
{
    if (!s.verify || !node.hashed || hash_of(node) == node.hash)
        return;
    s.mismatches++;
    std::string why = "verify: a replay of " + recipe.info->name + " differs from its first run";
    std::fprintf(stderr, "dtrscope: %s\n", why.c_str());
    hazard(nullptr, why);
}

dtr_status replay(const dtr_op_call *call, dtr_error *error)
{
    auto &recipe = *static_cast<Recipe *>(call->payload);
    std::vector<c10::intrusive_ptr<c10::StorageImpl>> inputs;
    inputs.reserve((size_t)call->n_inputs);
    for (int i = 0; i < call->n_inputs; i++) {
        Node *node = static_cast<Slot *>(call->inputs[i])->node;
        if (!node) {
            std::snprintf(error->text, sizeof error->text, "input %d of %.200s has lost its bytes",
                          i, recipe.info->name.c_str());
            return DTR_E_BACKEND;
        }
        inputs.push_back(node->storage());
        used_here(*node, *inputs.back());
    }
    std::vector<c10::DataPtr> bytes = recipe.replay(inputs);
    for (int i = 0; i < call->n_outputs; i++) {
        Node *node = recipe.outputs[(size_t)i].node.get();
        if (node->resident)
            continue;
        static_cast<Slot *>(call->outputs[i])->bind(node);
        node->put_in(std::move(bytes[(size_t)i]));
        remade_here(*node);
    }
    return DTR_OK;
}

dtr_status backend_run(void *, const dtr_op_call *call, int64_t *out_cost_ns, dtr_error *error)
{
    Session &s = session();
    auto &recipe = *static_cast<Recipe *>(call->payload);
    int64_t begin = now_ns();
    try {
        dtr_status status = replay(call, error);
        *out_cost_ns = now_ns() - begin;
        if (status != DTR_OK)
            return status;
    } catch (const std::exception &e) {
        std::snprintf(error->text, sizeof error->text, "replaying %.200s failed: %.280s",
                      recipe.info->name.c_str(), e.what());
        return DTR_E_BACKEND;
    }
    if (s.verify)
        for (int i = 0; i < call->n_outputs; i++)
            if (recipe.outputs[(size_t)i].node->resident)
                check_replay(s, recipe, *recipe.outputs[(size_t)i].node);
    return DTR_OK;
}

int64_t backend_now(void *)
{
    return now_ns();
}

void backend_memory(void *, int64_t *out_in_use, int64_t *out_peak)
{
    allocation_counts(out_in_use, out_peak);
    *out_in_use += session().device_in_use;
    *out_peak += session().device_peak;
}

} // namespace

const dtr_backend *torch_backend()
{
    static const dtr_backend backend = {nullptr,     backend_alloc, backend_free,
                                        backend_run, backend_now,   backend_memory};
    return &backend;
}

} // namespace dtrt
