// The one session of a process: the runtime with its lock, the nodes it knows, and what waits.
//
// Locks.  The runtime is used under `lock`.  Operators of the program run outside it, replays
// inside. Nothing that may wait for Python's interpreter lock happens inside: memory that numpy
// lent is given back, and names are looked up, before or after.  The program may let go of a
// storage on any thread with any lock held; when the session is busy, that waits until it is not.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "dtr/session.h"
#include "torch/recipe.h"

namespace dtrt
{

struct Estimate {
    int64_t bytes = 0; // of the outputs
    double cost = 0;   // mean, in ns
    int64_t runs = 0;
    int64_t signature = -1; // NAME id
    uint64_t shapes = 0;    // of the outputs that the signature is for
};

struct Session {
    std::mutex lock;
    dtr_session *session = nullptr;
    dtr_runtime *rt = nullptr;
    dtr_backend backend{};
    uint64_t number = 0;               // of this session; nodes of others are strangers
    std::atomic<bool> watching{false}; // operators are looked at
    bool verify = false;
    bool closing = false; // the runtime gives up all storages; the program's stay as they are
    std::unordered_map<c10::StorageImpl *, c10::intrusive_ptr<Node>> externals;
    std::unordered_map<uint64_t, Estimate> estimates;
    // Storages whose memory has left by numpy, and by how many arrays; in and outside sessions.
    std::unordered_map<const c10::StorageImpl *, int> lent;
    std::unordered_map<const c10::StorageImpl *, c10::intrusive_ptr<Node>> snapshots; // made last
    int64_t untracked = 0, mismatches = 0, device_in_use = 0, device_peak = 0;
    int stack_depth = 0;
    int64_t budget = DTR_NONE;
    size_t sweep_at = 64, sweep_snapshots_at = 16;

    std::mutex waiting_lock;
    std::vector<c10::intrusive_ptr<Node>> waiting; // let go while the session was busy
    std::atomic<size_t> n_waiting{0};
    std::vector<Recipe *> dropped; // to be freed outside the lock

    int64_t name(const char *text);
};

Session &session();

// Holds the session's lock; afterwards does what had to wait.
class Busy
{
  public:
    Busy();
    ~Busy();
    Busy(const Busy &) = delete;
};

// --- with the lock held ---

// The node that a storage has, or nullptr.
Node *known_node(const c10::StorageImpl *storage);
// The node of a storage, made if need be; an external one when no operator made it.
Node *node_of(c10::StorageImpl *storage);
// Looks which external storages have gone.
void sweep_externals();
// Everything becomes constant.  `why` names the cause.
void barrier(const std::string &why);
// Nothing depends on a constant any more: it may be changed.  What was computed from it is brought
// back and stays, or, when that is less, a copy of its content.  Returns the node that its storage
// has now.
Node *isolate(Node *node, const std::string &why);
// A constant with the content that memory of others has now, for replays to read; the one made last
// if that is the same.  It goes with those that are replayed from it: adopt them, then dtr_release
// it if `out_is_new`.
c10::intrusive_ptr<Node> snapshot_of(Node *node, bool *out_is_new);
// Counts and names what cannot be replayed.
void hazard(Node *node, const std::string &why);
// One tensor is brought back and stays.  `why` is a hazard; without one, `cause` only explains.
void keep_for_ever(Node *node, const std::string &why,
                   const char *cause = "parameters, buffers and inputs");
// Whether something else than PyTorch may change the bytes of a storage.
bool is_foreign(const c10::StorageImpl &storage);
// Throws what a status means.
[[noreturn]] void raise(dtr_status status, const dtr_error &error, const char *during = nullptr);
void drop_recipe(void *recipe);
// Forgets a node that another takes the place of: its bytes stay where they are.
void forget(Node *node);

const dtr_backend *torch_backend();

// --- clock and device ---

int64_t now_ns();
// The cost of what runs between begin and end, on the host or on the device.
class Stopwatch
{
  public:
    explicit Stopwatch(c10::optional<c10::Device> device);
    ~Stopwatch();
    // Ends the measurement.  Returns true when the cost is known; a device's comes later, in
    // `late`.
    bool stop(int64_t *out_ns);
    int64_t begin_ns() const
    {
        return begin_;
    }

    // Hands the events over: their time goes to `estimate` once the device has got there.
    void leave_for(uint64_t estimate);

  private:
    int64_t begin_;
    c10::optional<c10::Device> device_;
    void *start_ = nullptr, *stop_ = nullptr;
};
// Streams.  A node belongs to the one on which its operator ran first; on the host, nothing
// happens.
void made_here(Node &node);
// An operator reads it on the current stream: its memory is not given out before that is over.
void used_here(Node &node, const c10::StorageImpl &storage);
// It was replayed on the current stream: its own waits for that, as if it had always been there.
void remade_here(Node &node);
// Collects what devices have measured since; with the lock held.
void harvest();

// --- the host's allocator ---

void count_allocations();
void begin_allocation_peak(); // of a session
bool is_from_allocator(const c10::DataPtr &memory);
void allocation_counts(int64_t *out_in_use, int64_t *out_peak);

// --- Python's frames ---

void capture_python_stack(int depth);

int python_stack(void *self, void **out_keys, int n);
void python_describe(void *self, void *key, char *text, size_t size);

} // namespace dtrt
