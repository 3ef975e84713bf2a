// One version of one storage of PyTorch, as the runtime knows it.
//
// PyTorch's unit of memory is the StorageImpl, which views share, so that is what gets evicted: its
// DataPtr is taken out, and put back after a replay.  A storage that an operator made gets a
// subclass of StorageImpl which tells when the program has let go of it.  A storage from elsewhere
// (loaded, from numpy, made before) is a constant, and is looked at for its end now and then.
//
// An in-place operator makes a new version: a new node for the same StorageImpl.  The old node has
// no StorageImpl any more; if a replay needs its bytes, they live in a storage of the node's own.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/util/Optional.h>

#include <atomic>

#include "dtr/host.h"

namespace dtrt
{

struct Node;

// The runtime's word for the bytes of a storage.  Owns a reference to the node that they belong to.
struct Slot {
    Node *node = nullptr;

    static Slot *for_node(Node *node);
    void bind(Node *to);
    void unbind();
};

struct Node : c10::intrusive_ptr_target {
    dtr_tensor handle = DTR_NO_TENSOR;
    c10::weak_intrusive_ptr<c10::StorageImpl> impl; // the program's, while it holds it
    c10::intrusive_ptr<c10::StorageImpl> shadow;    // our own, when it does not
    c10::DataPtr orphan;                            // bytes left when the program let go
    size_t nbytes;
    c10::Device device;
    c10::optional<c10::Stream> stream; // of a device, on which it was made first
    Slot *slot = nullptr;              // while resident
    uint64_t session;
    uint64_t hash = 0;   // of its bytes before it was evicted, when verifying
    uint64_t call = 0;   // the call that met it last, and
    int32_t input = -1;  // which of its inputs it was
    int64_t origin = -1; // NAME id of the operator that made it
    bool resident = false;
    bool external = false; // not made by an operator: no subclass
    bool raw = false;      // never written to by an operator: its content may be the program's
    bool hashed = false;
    bool foreign = false; // somebody outside may change its bytes: nothing is replayed from it
    std::atomic<bool> done{false}; // the program has let go, and `orphan` is what it left

    Node(c10::weak_intrusive_ptr<c10::StorageImpl> storage, size_t bytes, c10::Device where,
         uint64_t of_session)
        : impl(std::move(storage)), nbytes(bytes), device(where), session(of_session)
    {
        alive++;
    }
    ~Node() override
    {
        alive--;
    }
    static std::atomic<int64_t> alive;

    // The storage with its bytes, held while somebody works on it.  Only while resident.
    c10::intrusive_ptr<c10::StorageImpl> storage();
    // Takes the bytes out / puts them in, wherever they belong now.
    c10::DataPtr take_out();
    void put_in(c10::DataPtr &&bytes);
};

// Told when the program lets go of a storage; on whatever thread, with whatever locks held.
void let_go(c10::intrusive_ptr<Node> node, c10::DataPtr &&bytes);

struct TrackedStorage final : c10::StorageImpl {
    c10::intrusive_ptr<Node> node;

    TrackedStorage(size_t bytes, c10::DataPtr data, c10::Allocator *allocator, bool is_resizable)
        : StorageImpl(use_byte_size_t(), bytes, std::move(data), allocator, is_resizable)
    {
    }
    ~TrackedStorage() override
    {
        finish();
    }
    // Runs before the destructor when there are weak references, as the node's.
    void release_resources() override
    {
        finish();
        StorageImpl::release_resources();
    }

  private:
    void finish()
    {
        if (node)
            let_go(std::move(node), set_data_ptr(c10::DataPtr(nullptr, device())));
    }
};

// The tracked form of a storage, or nullptr.
inline TrackedStorage *as_tracked(c10::StorageImpl *impl)
{
    return impl && typeid(*impl) == typeid(TrackedStorage) ? static_cast<TrackedStorage *>(impl)
                                                           : nullptr;
}

} // namespace dtrt
