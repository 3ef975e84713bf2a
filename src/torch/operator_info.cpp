#include "torch/operator_info.h"

#include <ATen/core/enum_tag.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace dtrt
{

namespace
{

struct BatchNorm {
    const char *name;
    int mean, training;
    bool updates;
};

// Which arguments are running statistics (mean, then variance), and which says that it is training;
// from the declarations in PyTorch's native_functions.yaml.
const BatchNorm batch_norms[] = {
    {"aten::native_batch_norm", 3, 5, true},
    {"aten::cudnn_batch_norm", 3, 5, true},
    {"aten::miopen_batch_norm", 3, 5, true},
    {"aten::_native_batch_norm_legit", 3, 5, true},
    {"aten::_batch_norm_with_update", 3, -1, true},
    {"aten::batch_norm_gather_stats", 3, -1, true},
    {"aten::batch_norm_gather_stats_with_counts", 3, -1, true},
    {"aten::native_batch_norm_backward", 3, 7, false},
    {"aten::cudnn_batch_norm_backward", 3, -1, false},
    {"aten::miopen_batch_norm_backward", 3, -1, false},
    {"aten::batch_norm_backward", 3, 7, false},
};

void describe_batch_norm(OperatorInfo &info, const std::string &name)
{
    for (const BatchNorm &b : batch_norms)
        if (name == b.name) {
            info.stats[0] = b.mean;
            info.stats[1] = b.mean + 1;
            info.training = b.training;
            info.updates_stats = b.updates;
        }
}

bool starts_with(const std::string &text, const char *prefix)
{
    return text.compare(0, std::strlen(prefix), prefix) == 0;
}

// In-place operators whose result does not depend on what was there.
bool overwrites_self(const std::string &name)
{
    static const char *const names[] = {
        "aten::zero_",   "aten::fill_",        "aten::copy_",      "aten::bernoulli_",
        "aten::normal_", "aten::exponential_", "aten::geometric_", "aten::uniform_",
        "aten::random_", "aten::log_normal_",  "aten::cauchy_",
    };
    for (const char *known : names)
        if (name == known)
            return true;
    return false;
}

// Operators that take a tensor for its sizes and its type alone.
bool reads_shape_only(const std::string &name)
{
    static const char *const names[] = {
        "aten::zeros_like",   "aten::ones_like", "aten::full_like",  "aten::rand_like",
        "aten::randn_like",   "aten::new_zeros", "aten::new_ones",   "aten::new_full",
        "aten::randint_like", "aten::new_empty", "aten::empty_like", "aten::new_empty_strided",
    };
    for (const char *known : names)
        if (name == known)
            return true;
    return false;
}

struct Table {
    std::mutex mutex;
    std::unordered_map<const c10::FunctionSchema *, std::unique_ptr<OperatorInfo>> infos;
    std::unordered_set<std::string> allowed;
};

Table &table()
{
    static Table *t = new Table; // tensors may outlive static objects
    return *t;
}

bool only_views(const c10::FunctionSchema &schema)
{
    bool any = false;
    for (const auto &value : schema.returns()) {
        const c10::AliasInfo *alias = value.alias_info();
        if (!alias || alias->isWrite())
            return false;
        any = true;
    }
    return any;
}

void describe_arguments(OperatorInfo &info, const c10::FunctionSchema &schema)
{
    for (size_t i = 0; i < schema.arguments().size(); i++) {
        const c10::Argument &argument = schema.arguments()[i];
        const bool optional = argument.type()->kind() == c10::TypeKind::OptionalType;
        info.needs_stats = info.needs_stats || ((int)i == info.stats[0] && !optional);
        bool is_stats = (int)i == info.stats[0] || (int)i == info.stats[1];
        bool writes = argument.alias_info() && argument.alias_info()->isWrite() && !is_stats;
        info.writes.push_back(writes);
        bool is_out = argument.kwarg_only(); // out=
        info.overwrites.push_back(writes && (is_out || overwrites_self(schema.name())));
        info.any_write = info.any_write || writes;
        std::string type = argument.type()->str();
        if (type.find("Generator") != std::string::npos)
            info.generator = (int)i;
        if (type.find("Storage") != std::string::npos)
            info.takes_storage = true;
    }
}

std::unique_ptr<OperatorInfo> describe(const c10::OperatorHandle &op, const Table &t)
{
    auto info = std::make_unique<OperatorInfo>();
    const c10::FunctionSchema &schema = op.schema();
    const std::string &name = schema.name();
    info->name = name;
    if (!schema.overload_name().empty())
        info->name += "." + schema.overload_name();
    describe_batch_norm(*info, name);
    describe_arguments(*info, schema);
    // Operators that compute nothing: ours, and the marks of PyTorch's profiler.
    info->is_ours = starts_with(name, "dtrscope::") || starts_with(name, "profiler::");
    info->is_known = starts_with(name, "aten::") || starts_with(name, "prims::") ||
                     t.allowed.count(name) || t.allowed.count(info->name);
    info->makes_raw = starts_with(name, "aten::empty") || starts_with(name, "aten::new_empty") ||
                      starts_with(name, "aten::_empty");
    info->is_view = !info->any_write && only_views(schema);
    info->shape_only = reads_shape_only(name);
    info->is_random = info->generator >= 0 || op.hasTag(at::Tag::nondeterministic_seeded);
    // resize_ changes sizes too, but may move the bytes.
    info->is_metadata = op.hasTag(at::Tag::inplace_view) && !starts_with(name, "aten::resize");
    return info;
}

} // namespace

OperatorInfo &info_of(const c10::OperatorHandle &op)
{
    // Looked up for every operator of a program: a small cache a thread in front of the table.
    struct Entry {
        const c10::FunctionSchema *schema;
        OperatorInfo *info;
    };
    thread_local Entry cache[256];
    const c10::FunctionSchema *schema = &op.schema();
    Entry &entry = cache[((uintptr_t)schema >> 6) % 256];
    if (entry.schema == schema)
        return *entry.info;
    Table &t = table();
    std::lock_guard<std::mutex> guard(t.mutex);
    std::unique_ptr<OperatorInfo> &info = t.infos[schema];
    if (!info)
        info = describe(op, t);
    entry = {schema, info.get()};
    return *info;
}

void allow_operator(const std::string &name)
{
    Table &t = table();
    std::lock_guard<std::mutex> guard(t.mutex);
    t.allowed.insert(name);
    for (auto &row : t.infos)
        if (row.second->name == name || row.first->name() == name)
            row.second->is_known = true;
}

} // namespace dtrt
