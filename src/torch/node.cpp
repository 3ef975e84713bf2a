#include "torch/node.h"

#include <thread>

namespace dtrt
{

std::atomic<int64_t> Node::alive{0};

Slot *Slot::for_node(Node *node)
{
    Slot *slot = new Slot;
    slot->bind(node);
    return slot;
}

void Slot::bind(Node *to)
{
    unbind();
    c10::raw::intrusive_ptr::incref(to);
    node = to;
    node->slot = this;
}

void Slot::unbind()
{
    Node *from = node;
    node = nullptr;
    if (!from)
        return;
    from->slot = nullptr;
    c10::raw::intrusive_ptr::decref(from);
}

// Between the end of a storage's last reference and let_go, its bytes are on their way here.
static void wait_until_done(const Node &node)
{
    while (!node.external && !node.done.load(std::memory_order_acquire))
        std::this_thread::yield();
}

c10::intrusive_ptr<c10::StorageImpl> Node::storage()
{
    auto held = impl.lock();
    if (held)
        return held;
    if (!shadow) {
        wait_until_done(*this);
        c10::DataPtr bytes = std::move(orphan);
        shadow = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), nbytes,
                                                       std::move(bytes), nullptr, false);
    }
    return shadow;
}

c10::DataPtr Node::take_out()
{
    resident = false;
    if (auto held = impl.lock())
        return held->set_data_ptr(c10::DataPtr(nullptr, device));
    if (shadow) {
        c10::DataPtr bytes = shadow->set_data_ptr(c10::DataPtr(nullptr, device));
        shadow.reset();
        return bytes;
    }
    wait_until_done(*this);
    return std::move(orphan);
}

void Node::put_in(c10::DataPtr &&bytes)
{
    resident = true;
    if (auto held = impl.lock())
        held->set_data_ptr_noswap(std::move(bytes));
    else
        orphan = std::move(bytes);
}

} // namespace dtrt
