#include "torch/recipe.h"

#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "torch/compat.h"
#include "torch/numerics.h"

namespace dtrt
{

namespace
{

// Only the operator's own kernel: no autograd, no autocast, no observer, none of the program's
// modes.
struct BareDispatch {
    c10::impl::LocalDispatchKeySet saved;

    BareDispatch() : saved(c10::impl::tls_local_dispatch_key_set())
    {
        c10::impl::LocalDispatchKeySet bare = saved;
        bare.included_ = c10::DispatchKeySet(c10::DispatchKey::BackendSelect);
        bare.excluded_ = c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
                         c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView) |
                         c10::DispatchKeySet(KEY);
        c10::impl::_force_tls_local_dispatch_key_set(bare);
    }
    ~BareDispatch()
    {
        c10::impl::_force_tls_local_dispatch_key_set(saved);
    }
};

// The generator's state is that of the first run for a while.
struct RandomState {
    c10::optional<at::Generator> generator;
    at::Tensor saved;

    RandomState(const c10::optional<at::Generator> &g, const at::Tensor &state) : generator(g)
    {
        if (!generator)
            return;
        std::lock_guard<std::mutex> guard(generator->mutex());
        saved = generator->get_state();
        generator->set_state(state);
    }
    ~RandomState()
    {
        if (!generator)
            return;
        std::lock_guard<std::mutex> guard(generator->mutex());
        generator->set_state(saved);
    }
};

c10::intrusive_ptr<c10::StorageImpl> storage_of(const at::Tensor &tensor)
{
    return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
        tensor.storage().unsafeGetStorageImpl());
}

at::Tensor empty_bytes(size_t bytes, c10::Device device)
{
    return at::empty({(int64_t)bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

c10::intrusive_ptr<c10::StorageImpl> fresh(size_t bytes, c10::Device device)
{
    return storage_of(empty_bytes(bytes, device));
}

c10::intrusive_ptr<c10::StorageImpl> copy_of(const c10::intrusive_ptr<c10::StorageImpl> &storage)
{
    at::Tensor from = empty_bytes(0, storage->device()),
               to = empty_bytes(storage->nbytes(), storage->device());
    from.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(storage));
    from.unsafeGetTensorImpl()->set_sizes_contiguous({(int64_t)storage->nbytes()});
    to.copy_(from);
    return storage_of(to);
}

} // namespace

c10::intrusive_ptr<c10::StorageImpl> copy_bytes(const c10::intrusive_ptr<c10::StorageImpl> &storage)
{
    BareDispatch bare;
    return copy_of(storage);
}

void Recipe::add(const c10::TensorImpl &tensor, int argument, int element, int input, bool written)
{
    const auto place = (uint32_t)geometry.size();
    const auto dims = (uint16_t)tensor.dim();
    geometry.append(tensor.sizes().begin(), tensor.sizes().end());
    geometry.append(tensor.strides().begin(), tensor.strides().end());
    tensors.push_back({tensor.storage_offset(), tensor.key_set(), element, input, place, dims,
                       (int16_t)argument, tensor.dtype(), written});
}

c10::intrusive_ptr<c10::StorageImpl>
Recipe::storage_for(const TensorArgument &t,
                    const std::vector<c10::intrusive_ptr<c10::StorageImpl>> &storages) const
{
    if (t.input >= 0)
        return storages[(size_t)t.input];
    int64_t elements = t.input == TensorArgument::SCRATCH ? t.offset + 1 : 0;
    for (uint16_t d = 0; elements && d < t.dims; d++)
        elements += (sizes(t)[d] - 1) * strides(t)[d];
    auto bytes = (size_t)std::max<int64_t>(elements, 0) * t.dtype.itemsize();
    return fresh(bytes, outputs[0].node->device);
}

at::Tensor Recipe::view(const TensorArgument &t, c10::intrusive_ptr<c10::StorageImpl> storage) const
{
    at::Tensor tensor =
        at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), t.keys, t.dtype);
    c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(sizes(t), strides(t));
    impl->set_storage_offset(t.offset);
    return tensor;
}

std::vector<c10::DataPtr>
Recipe::replay(const std::vector<c10::intrusive_ptr<c10::StorageImpl>> &inputs)
{
    BareDispatch bare;
    c10::AutoGradMode mode(grad_mode);
    RandomState random(generator, random_state);
    NumericsOf switches(numerics);
    auto storages = inputs;
    for (const Output &output : outputs) {
        if (output.written >= (int32_t)inputs.size())
            storages.resize(std::max(storages.size(), (size_t)output.written + 1));
        if (output.written >= (int32_t)inputs.size())
            storages[output.written] = fresh(output.node->nbytes, output.node->device);
        else if (output.written >= 0)
            storages[output.written] = copy_of(storages[output.written]);
    }
    torch::jit::Stack stack(arguments.begin(), arguments.end());
    for (c10::IValue &value : stack) /* a list is shared by its copies */
        if (value.isList())
            value = value.toList().copy();
    for (const TensorArgument &t : tensors) {
        at::Tensor tensor = view(t, storage_for(t, storages));
        if (t.element < 0)
            stack[t.argument] = std::move(tensor);
        else
            stack[t.argument].toList().set(t.element, c10::IValue(std::move(tensor)));
    }
    op.callBoxed(&stack);
    std::vector<c10::DataPtr> bytes;
    for (const Output &output : outputs) {
        c10::StorageImpl *storage;
        if (output.written >= 0)
            storage = storages[output.written].get();
        else if (output.element < 0)
            storage = stack[output.returned].toTensor().storage().unsafeGetStorageImpl();
        else
            storage = stack[output.returned]
                          .toListRef()[output.element]
                          .toTensor()
                          .storage()
                          .unsafeGetStorageImpl();
        TORCH_CHECK(storage->nbytes() == output.node->nbytes, "dtrscope: ", info->name, " made ",
                    storage->nbytes(), " bytes when it was replayed and ", output.node->nbytes,
                    " at first");
        bytes.push_back(storage->set_data_ptr(c10::DataPtr(nullptr, storage->device())));
    }
    return bytes;
}

} // namespace dtrt
