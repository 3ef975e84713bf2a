// Every operator of the program passes here, below autograd and above its kernel.
//
//   look     which storages it takes, which it changes
//   hold     bring them back, make room
//   run      the kernel, as always
//   adopt    give each new storage a node, and the runtime a recipe
//
// Views compute nothing and share storages: they pass.  What cannot be replayed makes constants.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "torch/numerics.h"
#include "torch/session.h"
#include "torch/compat.h"

namespace dtrt
{

void capture_python_stack(int depth);

namespace
{

// --- the key's bit on tensors: operators on them come here on other threads too ---

struct Opened : c10::TensorImpl {
    static c10::DispatchKeySet &keys(c10::TensorImpl *tensor)
    {
        return tensor->*(&Opened::key_set_);
    }
};

void mark(const at::Tensor &tensor)
{
    c10::DispatchKeySet &keys = Opened::keys(tensor.unsafeGetTensorImpl());
    keys = keys.add(KEY);
}

} // namespace

bool unmark(const at::Tensor &tensor)
{
    c10::DispatchKeySet &keys = Opened::keys(tensor.unsafeGetTensorImpl());
    bool was = keys.has(KEY);
    keys = keys.remove(KEY);
    return was;
}

void mark_again(const at::Tensor &tensor)
{
    mark(tensor);
}

namespace
{

// A tensor whose bytes are in a storage that can be swapped.
bool has_bytes(const at::Tensor &tensor)
{
    const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    return impl->has_storage() && !tensor.is_meta() && !tensor.is_quantized() &&
           !impl->key_set().has(c10::DispatchKey::Python) && !tensor.is_mkldnn() &&
           tensor.layout() == at::kStrided;
}

// --- one call --------------------------------------------------------------------------------

struct Input {
    Node *node;
    c10::intrusive_ptr<c10::StorageImpl> storage; // stays until the call is over
    bool written = false, covered = false, raw = false;
};

uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

uint64_t shape_hash(uint64_t h, const c10::TensorImpl &tensor)
{
    for (int64_t size : tensor.sizes())
        h = mix(h, (uint64_t)size);
    return mix(h, (uint64_t)c10::typeMetaToScalarType(tensor.dtype()) * 8 + (uint64_t)tensor.dim());
}

void describe_tensor(std::string &text, c10::IntArrayRef sizes, caffe2::TypeMeta dtype)
{
    text += c10::toString(c10::typeMetaToScalarType(dtype));
    text += '[';
    for (size_t i = 0; i < sizes.size(); i++) {
        if (i)
            text += ',';
        text += std::to_string(sizes[i]);
    }
    text += ']';
}

// Kernels above the dispatcher read lengths, offsets and split points through a pointer, which no
// operator tells: what may be such a vector stays.
bool is_index_vector(const at::Tensor &tensor)
{
    const auto type = c10::typeMetaToScalarType(tensor.dtype());
    return (type == at::kLong || type == at::kInt) && tensor.dim() <= 1 && tensor.device().is_cpu();
}

const char *const INDEX_VECTOR = "vectors of integers";

bool covers_storage(const c10::TensorImpl &tensor, size_t nbytes)
{
    return tensor.is_non_overlapping_and_dense() &&
           (size_t)tensor.numel() * tensor.itemsize() == nbytes;
}

class Call
{
  public:
    Call(const c10::OperatorHandle &op, OperatorInfo &info, c10::DispatchKeySet keys,
         torch::jit::Stack *stack)
        : s_(session()), op_(op), info_(info), keys_(keys), stack_(stack),
          n_arguments_(op.schema().arguments().size()), number_(s_.number)
    {
    }

    ~Call()
    {
        if (!snapshots_.empty())
            drop_snapshots();
    }
    Call(const Call &) = delete;

    void run()
    {
        if (s_.stack_depth > 0)
            capture_python_stack(s_.stack_depth);
        {
            Busy busy;
            if (!is_open()) {
                op_.redispatchBoxed(
                    keys_ & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY), stack_);
                return;
            }
            look();
            hold();
        }
        try {
            execute();
        } catch (...) {
            Busy busy;
            let_inputs_go();
            throw;
        }
        Busy busy;
        adopt();
    }

  private:
    Session &s_;
    const c10::OperatorHandle &op_;
    OperatorInfo &info_;
    c10::DispatchKeySet keys_;
    torch::jit::Stack *stack_;
    const size_t n_arguments_;
    const uint64_t
        number_; // of the session; another one, or none, may be open when the kernel is done
    c10::SmallVector<Input, 4> inputs_;
    c10::SmallVector<dtr_tensor, 4> handles_;
    std::unique_ptr<Recipe> recipe_;
    c10::optional<c10::Device> device_;
    uint64_t key_ = 0;
    bool opaque_ = false;       // takes a tensor without bytes of its own
    bool foreign_ = false;      // takes memory that others may change
    bool constant_ = false;     // the outputs cannot be replayed,
    const char *why_ = nullptr; // for this reason, unless they are changed constants
    c10::SmallVector<size_t, 2> index_vectors_; // outputs
    bool free_ = false; // what it changes is a constant that others use: changed without record
    c10::SmallVector<dtr_tensor, 1> snapshots_; // referred to until they are inputs
    bool held_ = false;
    int64_t begin_ns_ = 0, dur_ns_ = 0;
    bool timed_ = false; // dur_ns_ is what the operator takes, not only what launching it takes
    Estimate *estimate_ = nullptr;

    const c10::IValue &argument(size_t i) const
    {
        return (*stack_)[stack_->size() - n_arguments_ + i];
    }

    bool strips(int i) const
    {
        return (i == info_.stats[0] || i == info_.stats[1]) &&
               (info_.training < 0 || argument((size_t)info_.training).toBool());
    }

    int input_of(const at::Tensor &tensor)
    {
        c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
        for (size_t i = 0; i < inputs_.size(); i++)
            if (inputs_[i].storage.get() == storage)
                return (int)i;
        Input input;
        input.node = node_of(storage);
        input.storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
        inputs_.push_back(std::move(input));
        return (int)inputs_.size() - 1;
    }

    // --- look ---

    void look()
    {
        recipe_ = std::make_unique<Recipe>(op_, info_);
        key_ = mix((uint64_t)(uintptr_t)&info_, n_arguments_);
        each_tensor(*stack_, n_arguments_, [&](const at::Tensor &tensor, int i, int element) {
            look_at(tensor, i, element);
        });
        if (inputs_.empty())
            hash_sizes();
        if (info_.any_write || info_.updates_stats)
            prepare_writes();
        if (!info_.is_known) {
            // It may change its inputs without saying so: nothing may depend on them.
            for (Input &in : inputs_) {
                keep_for_ever(in.node, "", "taken by custom operators");
                in.node = isolate(in.node, "custom operator " + info_.name);
            }
            hazard(nullptr, "custom operator " + info_.name);
            forbid_replay("made by custom operators");
        }
        if (opaque_)
            forbid_replay("made from tensors without bytes of their own");
        if (info_.takes_storage)
            forbid_replay("made from bare storages");
    }

    // The outputs are constants, and why.
    void forbid_replay(const char *why)
    {
        constant_ = true;
        why_ = why_ ? why_ : why;
    }

    void look_at(const at::Tensor &tensor, int i, int element)
    {
        if (!tensor.defined())
            return;
        const c10::TensorImpl &impl = *tensor.unsafeGetTensorImpl();
        if (impl.is_wrapped_number())
            return; // a number: stays among the arguments
        if (!has_bytes(tensor)) {
            opaque_ = true;
            return;
        }
        key_ = shape_hash(key_, impl);
        if (!device_ && !tensor.device().is_cpu())
            device_ = tensor.device();
        if (info_.shape_only && i == 0) {
            recipe_->add(impl, i, element, TensorArgument::UNREAD, false);
            return;
        }
        if (element < 0 && strips(i)) {
            keep_stats(tensor);
            if (info_.needs_stats)
                recipe_->add(impl, i, element, TensorArgument::SCRATCH, false);
            return;
        }
        int input = input_of(tensor);
        bool written = info_.any_write && info_.writes[(size_t)i];
        Input &in = inputs_[(size_t)input];
        foreign_ = foreign_ || (in.node->foreign && !written);
        if (written) {
            in.covered = in.raw = false;
            if (!in.written && in.node->raw && info_.overwrites[(size_t)i] &&
                covers_storage(impl, in.node->nbytes) && !taken_elsewhere(input, i))
                in.covered = true;
            in.written = true;
        } else if (in.covered) {
            in.covered = false; // read as well
        }
        recipe_->add(impl, i, element, input, written);
    }

    bool taken_elsewhere(int input, int i) const
    {
        for (const TensorArgument &t : recipe_->tensors)
            if (t.input == input && t.argument != i)
                return true;
        return false;
    }

    // Running statistics are changed behind the schema's back, and not read: a constant on which
    // nothing depends, and no input of the recipe.
    void keep_stats(const at::Tensor &tensor)
    {
        Node *node = node_of(tensor.storage().unsafeGetStorageImpl());
        keep_for_ever(node, "");
        if (info_.updates_stats)
            isolate(node, info_.name + " updates statistics that others depend on");
    }

    void hash_sizes()
    {
        for (size_t i = 0; i < n_arguments_; i++) {
            const c10::IValue &value = argument(i);
            if (value.isInt())
                key_ = mix(key_, (uint64_t)value.toInt());
            else if (value.isIntList())
                for (int64_t size : value.toIntVector())
                    key_ = mix(key_, (uint64_t)size);
        }
    }

    bool is_constant(const Node *node) const
    {
        dtr_tensor_info info;
        return dtr_tensor_info_of(s_.rt, node->handle, &info) == DTR_OK && info.constant;
    }

    void prepare_writes()
    {
        for (Input &in : inputs_) {
            if (!in.written || !is_constant(in.node))
                continue;
            in.node = isolate(in.node, info_.name + " changes a constant that others depend on");
            if (!in.covered)
                constant_ = true;
        }
    }

    // --- hold ---

    void hold()
    {
        dtr_error error;
        estimate_ = &s_.estimates[key_];
        const int64_t bytes = estimate_->runs ? estimate_->bytes : guess();
        if (foreign_ && !constant_)
            settle_foreign(bytes);
        for (const Input &in : inputs_)
            handles_.push_back(in.node->handle);
        if (s_.budget != DTR_NONE)
            make_way(bytes);
        dtr_status status = dtr_hold(s_.rt, handles_.data(), (int)handles_.size(), bytes, &error);
        if (status != DTR_OK)
            raise(status, error, info_.name.c_str());
        held_ = true;
        if (info_.any_write)
            check_takes();
    }

    // Memory that others may change: replays read a copy, or there are none, whichever takes less.
    void settle_foreign(int64_t bytes)
    {
        for (const Input &in : inputs_)
            if (in.node->foreign && !in.written)
                bytes -= (int64_t)in.node->nbytes;
        if (s_.budget == DTR_NONE || bytes < 0) {
            forbid_replay("computed from memory that others may change");
            return;
        }
        for (Input &in : inputs_) {
            if (!in.node->foreign || in.written)
                continue;
            bool is_new;
            auto copy = snapshot_of(in.node, &is_new);
            in.node = copy.get(); // its slot keeps it
            if (is_new)
                snapshots_.push_back(copy->handle);
        }
    }

    void drop_snapshots()
    {
        Busy busy;
        for (dtr_tensor handle : snapshots_)
            if (is_open())
                dtr_release(s_.rt, handle);
    }

    // What an operator makes is known only when it has run once: until then, as much as the largest
    // tensor that it takes.
    int64_t guess() const
    {
        int64_t bytes = 0;
        if (info_.any_write)
            return 0;
        for (const TensorArgument &t : recipe_->tensors) {
            int64_t size = (int64_t)t.dtype.itemsize();
            for (int64_t n : recipe_->sizes(t))
                size *= n;
            bytes = std::max(bytes, size);
        }
        return bytes;
    }

    // Storages of elsewhere that have gone count until it is noticed: before anything is evicted.
    void make_way(int64_t bytes)
    {
        dtr_stats stats;
        dtr_runtime_stats(s_.rt, &stats);
        if (stats.in_use_bytes + bytes > s_.budget)
            sweep_externals();
    }

    void check_takes()
    {
        for (Input &in : inputs_) {
            if (!in.written || in.covered || dtr_can_take(s_.rt, in.node->handle, 1))
                continue;
            // Others work on it at this moment.  Once it is a constant, it may be changed freely.
            let_inputs_go();
            barrier(info_.name + " changes a tensor that another thread uses");
            constant_ = free_ = true;
            dtr_error error;
            dtr_status status = dtr_hold(s_.rt, handles_.data(), (int)handles_.size(), 0, &error);
            if (status != DTR_OK)
                raise(status, error, info_.name.c_str());
            held_ = true;
            return;
        }
    }

    void let_inputs_go()
    {
        if (held_ && is_open())
            dtr_unhold(s_.rt, handles_.data(), (int)handles_.size());
        held_ = false;
    }

    // --- run ---

    void save_random_state()
    {
        c10::optional<at::Generator> generator;
        if (info_.generator >= 0) {
            const c10::IValue &value = argument((size_t)info_.generator);
            if (value.isGenerator() && value.toGenerator().defined())
                generator = value.toGenerator();
        }
        if (!generator)
            generator =
                at::globalContext().defaultGenerator(device_ ? *device_ : arguments_device());
        std::lock_guard<std::mutex> guard(generator->mutex());
        recipe_->random_state = generator->get_state();
        recipe_->generator = generator;
    }

    c10::Device arguments_device() const
    {
        for (size_t i = 0; i < n_arguments_; i++)
            if (argument(i).isDevice())
                return argument(i).toDevice();
        return c10::Device(c10::kCPU);
    }

    void keep_arguments()
    {
        recipe_->arguments.reserve(n_arguments_);
        for (size_t i = 0; i < n_arguments_; i++) {
            const c10::IValue &value = argument(i);
            bool strip = value.isTensor() && strips((int)i);
            bool tensor = value.isTensor() && value.toTensor().defined() &&
                          !value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
            if (strip || tensor)
                recipe_->arguments.emplace_back(strip ? c10::IValue() : c10::IValue());
            else if (value.isList())
                recipe_->arguments.emplace_back(without_tensors(value));
            else
                recipe_->arguments.push_back(value);
        }
    }

    static c10::IValue without_tensors(const c10::IValue &value)
    {
        auto list = value.toList().copy();
        for (size_t i = 0; i < list.size(); i++) {
            c10::IValue item = list.get(i);
            if (item.isTensor() && item.toTensor().defined())
                list.set(i, c10::IValue(at::Tensor()));
        }
        return list;
    }

    void execute()
    {
        c10::impl::ExcludeDispatchKeyGuard guard(KEY);
        if (info_.is_random && !constant_)
            save_random_state();
        if (!constant_) {
            keep_arguments();
            recipe_->numerics = numerics(device_.has_value());
        }
        Stopwatch watch(device_);
        op_.redispatchBoxed(keys_ & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY),
                            stack_);
        if (device_)
            for (const Input &in : inputs_)
                used_here(*in.node, *in.storage);
        timed_ = watch.stop(&dur_ns_);
        begin_ns_ = watch.begin_ns();
        watch.leave_for(key_);
    }

    // --- adopt ---

    bool is_input(const c10::StorageImpl *storage) const
    {
        for (const Input &in : inputs_)
            if (in.storage.get() == storage)
                return true;
        return false;
    }

    // Gives what the operator made a storage that can be watched.  Returns its node, or nullptr
    // when somebody else knows the storage already.
    c10::intrusive_ptr<Node> track(const at::Tensor &tensor)
    {
        c10::StorageImpl *made = tensor.storage().unsafeGetStorageImpl();
        if (made->nbytes() == 0 || !made->data_ptr().get() || as_tracked(made) ||
            tensor.storage().use_count() != 1)
            return {};
        auto tracked = c10::make_intrusive<TrackedStorage>(
            made->nbytes(), made->set_data_ptr(c10::DataPtr(nullptr, made->device())),
            made->allocator(), made->resizable());
        auto node = c10::make_intrusive<Node>(c10::weak_intrusive_ptr<c10::StorageImpl>(
                                                  c10::intrusive_ptr<c10::StorageImpl>(tracked)),
                                              tracked->nbytes(), tracked->device(), s_.number);
        made_here(*node);
        tracked->node = node;
        tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(
            c10::Storage(c10::intrusive_ptr<c10::StorageImpl>(std::move(tracked))));
        return node;
    }

    void find_made()
    {
        const size_t n = op_.schema().returns().size();
        each_tensor(*stack_, n, [&](const at::Tensor &tensor, int i, int element) {
            if (!tensor.defined() || !has_bytes(tensor))
                return;
            c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
            if (is_input(storage)) {
                mark(tensor);
                return;
            }
            c10::intrusive_ptr<Node> node = track(tensor);
            if (!node) {
                if (storage->nbytes() && !as_tracked(storage))
                    s_.untracked++;
                return;
            }
            mark(tensor);
            Output output;
            output.node = std::move(node);
            output.returned = i;
            output.element = element;
            if (is_index_vector(tensor))
                index_vectors_.push_back(recipe_->outputs.size());
            recipe_->outputs.push_back(std::move(output));
        });
    }

    // A node for the new content of each storage that was changed.
    void find_changed()
    {
        for (size_t i = 0; i < inputs_.size(); i++) {
            Input &in = inputs_[i];
            if (!in.written || free_)
                continue;
            auto node =
                c10::make_intrusive<Node>(c10::weak_intrusive_ptr<c10::StorageImpl>(in.storage),
                                          in.storage->nbytes(), in.storage->device(), s_.number);
            node->external = in.node->external;
            node->foreign = in.node->foreign;
            made_here(*node);
            Output output;
            output.node = std::move(node);
            output.written = (int)i;
            recipe_->outputs.push_back(std::move(output));
        }
    }

    bool is_open() const
    {
        return s_.rt && s_.number == number_;
    }

    void adopt()
    {
        if (!is_open())
            return;
        find_changed();
        find_made();
        if (recipe_->outputs.empty()) {
            let_inputs_go();
            return;
        }
        if (info_.makes_raw)
            forbid_replay("memory that nobody has written to");
        drop_covered();
        submit();
    }

    // An operator that writes all of what nobody has written to: its old content is no input.  A
    // replay gives it fresh memory, which is counted behind the inputs.
    void drop_covered()
    {
        c10::SmallVector<Input, 4> left;
        int n_covered = 0;
        for (const Input &in : inputs_)
            n_covered += in.covered;
        if (!n_covered)
            return;
        let_inputs_go();
        int place = (int)inputs_.size() - n_covered;
        c10::SmallVector<int, 4> places;
        for (Input &in : inputs_) {
            places.push_back(in.covered ? place++ : (int)left.size());
            if (in.covered)
                forget(holder_of(in.node).get());
            else
                left.push_back(in);
        }
        handles_.clear();
        for (const Input &in : left)
            handles_.push_back(in.node->handle);
        for (TensorArgument &t : recipe_->tensors)
            if (t.input >= 0)
                t.input = places[(size_t)t.input];
        for (Output &output : recipe_->outputs)
            if (output.written >= 0)
                output.written = places[(size_t)output.written];
        for (Input &in : inputs_)
            if (in.covered)
                left.push_back(in);
        inputs_ = std::move(left);
        dtr_error error;
        dtr_status status = dtr_hold(s_.rt, handles_.data(), (int)handles_.size(), 0, &error);
        if (status != DTR_OK)
            raise(status, error, info_.name.c_str());
        held_ = true;
    }

    static c10::intrusive_ptr<Node> holder_of(Node *node)
    {
        return c10::intrusive_ptr<Node>::reclaim_copy(node);
    }

    double cost()
    {
        if (timed_) {
            estimate_->runs++;
            estimate_->cost += ((double)dur_ns_ - estimate_->cost) / (double)estimate_->runs;
        } else {
            harvest();
        }
        return estimate_->runs ? estimate_->cost : (double)dur_ns_;
    }

    // The arrays that dtr_adopt wants, one entry an output.
    struct Outputs {
        c10::SmallVector<dtr_output, 2> sizes;
        c10::SmallVector<void *, 2> data;
        c10::SmallVector<int, 2> takes;
        c10::SmallVector<dtr_tensor, 2> made;
        c10::SmallVector<c10::intrusive_ptr<Node>, 2> nodes;
        c10::SmallVector<Input, 2> changed; // node nullptr: made anew
        int64_t bytes = 0;
    };

    void describe_output(Outputs &out, Output &output)
    {
        Node *node = output.node.get();
        const bool taken = output.written >= 0 && output.written < (int)handles_.size();
        node->resident = true;
        out.sizes.push_back({(int64_t)node->nbytes, -1});
        out.takes.push_back(taken ? output.written : -1);
        out.data.push_back(taken ? nullptr : Slot::for_node(node));
        out.made.push_back(DTR_NO_TENSOR);
        out.nodes.push_back(output.node);
        out.changed.push_back(output.written >= 0 ? inputs_[(size_t)output.written] : Input());
        if (output.written < 0)
            out.bytes += (int64_t)node->nbytes;
    }

    void submit()
    {
        Outputs out;
        for (Output &output : recipe_->outputs)
            describe_output(out, output);
        estimate_->bytes = out.bytes;
        dtr_host_run run{};
        run.begin_ns = begin_ns_;
        run.dur_ns = dur_ns_;
        run.cost_ns = (int64_t)cost();
        run.data = out.data.data();
        run.takes = out.takes.data();
        run.signature = signature();
        run.constant = constant_;
        dtr_call call{};
        call.name = name_id();
        call.mutates = info_.any_write;
        call.n_inputs = (int)handles_.size();
        call.n_outputs = (int)out.nodes.size();
        call.inputs = handles_.data();
        call.outputs = out.sizes.data();
        finish_recipe();
        call.payload_free = drop_recipe;
        call.payload = recipe_.release();
        take_slots(out); // before it is adopted, since it may be evicted at once
        dtr_error error;
        dtr_status status = dtr_adopt(s_.rt, &call, &run, out.made.data(), &error);
        if (status != DTR_OK && status != DTR_E_OUT_OF_MEMORY)
            give_up(out, status, error);
        held_ = false;
        for (size_t i = 0; i < out.nodes.size(); i++)
            settle(*out.nodes[i], out.made[i], out.changed[i]);
        if (constant_)
            explain(out);
        if (status != DTR_OK)
            raise(status, error, info_.name.c_str());
        for (size_t i : index_vectors_)
            keep_for_ever(out.nodes[i].get(), "", INDEX_VECTOR);
    }

    // Why the outputs are constants.
    void explain(const Outputs &out)
    {
        const int64_t cause = s_.name(why_ ? why_ : "parameters, buffers and inputs");
        for (const auto &node : out.nodes) {
            dtr_set_cause(s_.rt, node->handle, cause);
            if (why_ && !info_.makes_raw)
                hazard(node.get(), std::string(why_) + ": " + info_.name);
        }
    }

    // The bytes of what is changed in place belong to the new node.
    void take_slots(Outputs &out)
    {
        for (size_t i = 0; i < out.nodes.size(); i++)
            if (out.takes[i] >= 0)
                out.changed[i].node->slot->bind(out.nodes[i].get());
    }

    void give_up(Outputs &out, dtr_status status, const dtr_error &error)
    {
        for (size_t i = 0; i < out.nodes.size(); i++)
            if (out.takes[i] >= 0)
                out.nodes[i]->slot->bind(out.changed[i].node);
        for (void *data : out.data)
            if (Slot *slot = static_cast<Slot *>(data)) {
                slot->unbind();
                delete slot;
            }
        let_inputs_go();
        raise(status, error, info_.name.c_str());
    }

    // The new node takes the place of the one whose storage was changed.
    void settle(Node &node, dtr_tensor handle, const Input &changed)
    {
        node.handle = handle;
        node.raw = info_.makes_raw;
        if (!changed.node)
            return;
        auto old = holder_of(changed.node);
        old->handle = DTR_NO_TENSOR; // its bytes were taken, and its reference
        old->resident = false;
        old->impl.reset();
        old->done = true;
        TrackedStorage *tracked = as_tracked(changed.storage.get());
        if (tracked && !node.external)
            tracked->node = holder_of(&node);
        else
            s_.externals[changed.storage.get()] = holder_of(&node);
    }

    void finish_recipe()
    {
        for (const Input &in : inputs_)
            if (in.node->external && !in.covered && !in.written)
                recipe_->kept.push_back(in.storage);
    }

    int64_t name_id()
    {
        if (info_.session != s_.number) {
            info_.name_id = s_.name(info_.name.c_str());
            info_.session = s_.number;
        }
        return info_.name_id;
    }

    int64_t signature()
    {
        Estimate &estimate = *estimate_;
        uint64_t shapes = 1;
        const size_t n = op_.schema().returns().size();
        each_tensor(*stack_, n, [&](const at::Tensor &tensor, int, int) {
            if (tensor.defined())
                shapes = shape_hash(shapes, *tensor.unsafeGetTensorImpl());
        });
        if (estimate.signature >= 0 && estimate.shapes == shapes)
            return estimate.signature;
        std::string text;
        for (const TensorArgument &t : recipe_->tensors) {
            if (!text.empty())
                text += ' ';
            describe_tensor(text, recipe_->sizes(t), t.dtype);
        }
        text += text.empty() ? "->" : " ->";
        each_tensor(*stack_, n, [&](const at::Tensor &tensor, int, int) {
            if (!tensor.defined())
                return;
            text += ' ';
            describe_tensor(text, tensor.sizes(), tensor.dtype());
        });
        estimate.shapes = shapes;
        estimate.signature = s_.name(text.c_str());
        return estimate.signature;
    }
};

// A view: computes nothing, shares its storage.
void pass_view(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    {
        c10::impl::ExcludeDispatchKeyGuard guard(KEY);
        op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY), stack);
    }
    each_tensor(*stack, op.schema().returns().size(), [](const at::Tensor &tensor, int, int) {
        if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage())
            return;
        const c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
        if (!as_tracked(const_cast<c10::StorageImpl *>(storage)))
            return;
        mark(tensor);
        if (is_index_vector(tensor)) {
            Busy busy;
            if (Node *node = session().rt ? known_node(storage) : nullptr)
                keep_for_ever(node, "", INDEX_VECTOR);
        }
    });
}

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    if (session().watching.load(std::memory_order_relaxed)) {
        OperatorInfo &info = info_of(op);
        if (info.is_view || info.is_metadata) {
            pass_view(op, keys, stack);
            return;
        }
        if (!info.is_ours) {
            Call(op, info, keys, stack).run();
            return;
        }
    }
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY), stack);
}

} // namespace

} // namespace dtrt

TORCH_LIBRARY_IMPL(_, DTR_TORCH_KEY, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&dtrt::fallback>());
}
