// What the schema of an operator says about replaying it, looked up once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace dtrt
{

struct OperatorInfo {
    std::string name;             // with its overload: aten::add.Tensor
    std::vector<bool> writes;     // per argument: changed in place
    std::vector<bool> overwrites; // and then the result does not depend on what was there
    bool any_write = false;
    // Gives out memory that nobody has written to.  What a program does with it may not pass the
    // dispatcher, so it is kept, until an operator writes all of it.
    bool makes_raw = false;
    bool shape_only = false;  // does not read the bytes of its first argument
    bool is_view = false;     // outputs are views of an input; nothing is computed
    bool is_metadata = false; // changes sizes or strides only, in place
    bool is_random = false;
    bool is_known = false;      // its schema can be trusted: PyTorch's own, or allowed by the user
    bool is_ours = false;       // nothing to look at
    bool takes_storage = false; // an argument is a bare storage
    int generator = -1;         // argument
    // Statistics that batch normalization changes without saying so: arguments that are left out of
    // the recipe when the argument `training` is true (-1: always).
    int stats[2] = {-1, -1};
    int training = -1;
    bool updates_stats = false;
    bool needs_stats = false; // and refuses to run without: a replay gets scratch memory
    int64_t name_id = -1;     // NAME id, of the session `session`
    uint64_t session = 0;
};

// Any thread.  The result lives for ever.
OperatorInfo &info_of(const c10::OperatorHandle &op);
// Trusts a custom operator's schema: it is pure but for what it declares.
void allow_operator(const std::string &name);

} // namespace dtrt
