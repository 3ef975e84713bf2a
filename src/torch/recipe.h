// How to run an operator again: its arguments, with a description in place of each tensor.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>

#include "torch/node.h"
#include "torch/operator_info.h"

namespace dtrt
{

// A tensor argument without its storage: a view to be made over it.  Kept small: a step has one for
// every tensor that an operator takes.
struct TensorArgument {
    // Instead of an input: no bytes are read; what is written is not looked at.
    enum : int32_t { UNREAD = -1, SCRATCH = -2 };

    int64_t offset;
    c10::DispatchKeySet keys;
    int32_t element; // of a list, or -1
    int32_t input;   // of the operator, as the runtime knows it; beyond its inputs: fresh memory
    uint32_t place;  // in the recipe's geometry: `dims` sizes, then as many strides
    uint16_t dims;
    int16_t argument;
    caffe2::TypeMeta dtype;
    bool written;
};

// Where an output's bytes are found after a replay.
struct Output {
    c10::intrusive_ptr<Node> node;
    int32_t written = -1;  // the input changed in place, or the fresh memory that was written, or
    int32_t returned = -1; // the place among what is returned,
    int32_t element = -1;  // and in a list
};

struct Recipe {
    c10::OperatorHandle op;
    const OperatorInfo *info;
    std::vector<c10::IValue> arguments; // None where a tensor goes
    c10::SmallVector<TensorArgument, 3> tensors;
    c10::SmallVector<int64_t, 12> geometry; // of the tensors
    c10::SmallVector<Output, 1> outputs;
    // Storages of constants from elsewhere: the bytes that a replay reads have to stay.
    c10::SmallVector<c10::intrusive_ptr<c10::StorageImpl>, 2> kept;
    at::Tensor random_state;
    c10::optional<at::Generator> generator;
    uint64_t numerics = 0; // torch/numerics.h
    bool grad_mode;        // some kernels look at it

    Recipe(const c10::OperatorHandle &handle, const OperatorInfo &about)
        : op(handle), info(&about), grad_mode(c10::GradMode::is_enabled())
    {
    }
    void add(const c10::TensorImpl &tensor, int argument, int element, int input, bool written);
    c10::IntArrayRef sizes(const TensorArgument &t) const
    {
        return {geometry.data() + t.place, t.dims};
    }
    c10::IntArrayRef strides(const TensorArgument &t) const
    {
        return {geometry.data() + t.place + t.dims, t.dims};
    }
    c10::intrusive_ptr<c10::StorageImpl>
    storage_for(const TensorArgument &t,
                const std::vector<c10::intrusive_ptr<c10::StorageImpl>> &storages) const;
    at::Tensor view(const TensorArgument &t, c10::intrusive_ptr<c10::StorageImpl> storage) const;
    // Runs it on the storages of its inputs, on copies of those that it changes.  Returns the bytes
    // of each output.  Throws what the operator throws.
    std::vector<c10::DataPtr>
    replay(const std::vector<c10::intrusive_ptr<c10::StorageImpl>> &inputs);
};

// The bytes of a storage in a new one.
c10::intrusive_ptr<c10::StorageImpl>
copy_bytes(const c10::intrusive_ptr<c10::StorageImpl> &storage);

// Calls `visit(tensor, argument, element)` for each tensor among the last `n` values.
template <typename Visit> void each_tensor(const torch::jit::Stack &stack, size_t n, Visit visit)
{
    const size_t begin = stack.size() - n;
    for (size_t i = 0; i < n; i++) {
        const c10::IValue &value = stack[begin + i];
        if (value.isTensor()) {
            visit(value.toTensor(), (int)i, -1);
        } else if (value.isList()) {
            int element = 0;
            for (const c10::IValue &item : value.toListRef()) {
                if (item.isTensor())
                    visit(item.toTensor(), (int)i, element);
                element++;
            }
        }
    }
}

} // namespace dtrt
