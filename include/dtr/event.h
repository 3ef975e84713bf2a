/* The vocabulary of events: what a runtime tells about itself, and the sink that it tells it to.
 *
 * One list (DTR_EVENT_KINDS and a DTR_FIELDS_* list for each kind) yields the enum, the structs,
 * the table that describes them at run time, the columns of the store and the names in exports.  An
 * event is a fact: statistics, intervals and pictures are computed from events and never emitted.
 *
 * Every field is a signed 64-bit integer, or a double where the list says REAL.  DTR_NONE (-1)
 * means "there is none".  Units: NS nanoseconds, BYTES, ID (unique within the run, never reused),
 * NAME (an id given by the sink's `name` call), COUNT, CODE (an enum below), REAL.
 *
 * Time: `ts_ns` is the clock of the backend (monotonic host time of a real run, the logical clock
 * of a simulation).  Events of one runtime are totally ordered by `seq`; a span has the time of its
 * begin and is emitted at its end, so `ts_ns` alone does not rise strictly. */
#ifndef DTR_EVENT_H
#define DTR_EVENT_H

#include <stdint.h>

#include "dtr/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DTR_NONE ((int64_t)-1)

/* clang-format off */

/* A field list: F(name, unit, meaning). */
#define DTR_FIELDS_STORAGE(F)                                                                      \
    F(storage, ID, "the new storage")                                                              \
    F(bytes, BYTES, "its size")                                                                    \
    F(root, ID, "the tensor that owns the bytes")
#define DTR_FIELDS_TENSOR(F)                                                                       \
    F(tensor, ID, "the new tensor")                                                                \
    F(storage, ID, "the storage it lives on")                                                      \
    F(op, ID, "the operator that makes it")                                                        \
    F(output, COUNT, "which of the operator's outputs it is")                                      \
    F(view_of, ID, "the tensor it is a view of, or none")                                          \
    F(constant, CODE, "1 when it has no operator to replay")
#define DTR_FIELDS_OPERATOR(F)                                                                     \
    F(op, ID, "the new operator")                                                                  \
    F(name, NAME, "its name")                                                                      \
    F(n_inputs, COUNT, "how many operand events belong to it")                                     \
    F(n_outputs, COUNT, "how many tensor events belong to it")                                     \
    F(mutates, CODE, "1 when it stands for an in-place operator (copy on write)")
#define DTR_FIELDS_OPERAND(F)                                                                      \
    F(op, ID, "the operator")                                                                      \
    F(position, COUNT, "place among its inputs, from 0")                                           \
    F(tensor, ID, "the input")
#define DTR_FIELDS_OPERATOR_RUN(F)                                                                 \
    F(execution, ID, "this run")                                                                   \
    F(op, ID, "the operator executed")                                                             \
    F(name, NAME, "its name")                                                                      \
    F(dur_ns, NS, "how long it took, from ts_ns")                                                  \
    F(cost_ns, NS, "the operator's cost as the heuristics count it: that of its first run")        \
    F(replay, CODE, "0 first run, 1 replay")                                                       \
    F(target, ID, "the tensor that was asked for")                                                 \
    F(depth, COUNT, "links of the chain between this run and the request; 0 is the request's own") \
    F(cause, ID, "the operator that needed the target, or none when the program asked")            \
    F(chain, ID, "the rematerialization it belongs to, or none")                                   \
    F(in_use, BYTES, "bytes in use while it ran, doubled outputs included")
#define DTR_FIELDS_CHAIN(F)                                                                        \
    F(chain, ID, "this rematerialization and all that it pulled in")                               \
    F(tensor, ID, "the tensor that was missing")                                                   \
    F(dur_ns, NS, "from the request (ts_ns) until the tensor was back")                            \
    F(runs, COUNT, "operator runs in it")                                                          \
    F(cost_ns, NS, "sum of their costs")                                                           \
    F(max_depth, COUNT, "the longest path from the request to a run")                              \
    F(cause, ID, "the operator that needed the tensor, or none when the program asked")
#define DTR_FIELDS_ALLOCATION(F)                                                                   \
    F(storage, ID, "the storage that became resident")                                             \
    F(bytes, BYTES, "its size")                                                                    \
    F(in_use, BYTES, "bytes in use afterwards")                                                    \
    F(offset, BYTES, "place in the arena, or none where the allocator has no arena")
#define DTR_FIELDS_FREEING(F)                                                                      \
    F(storage, ID, "the storage that was freed for good")                                          \
    F(bytes, BYTES, "bytes given back; 0 when it was evicted already")                             \
    F(in_use, BYTES, "bytes in use afterwards")
#define DTR_FIELDS_EVICTION(F)                                                                     \
    F(storage, ID, "the storage whose bytes were given back")                                      \
    F(bytes, BYTES, "its size")                                                                    \
    F(in_use, BYTES, "bytes in use afterwards")                                                    \
    F(reason, CODE, "enum dtr_eviction_reason")                                                    \
    F(decision, ID, "the decision that chose it, or none unless the reason is the budget")
#define DTR_FIELDS_DECISION(F)                                                                     \
    F(decision, ID, "this choice of a victim")                                                     \
    F(storage, ID, "the victim")                                                                   \
    F(op, ID, "the operator that needed the space")                                                \
    F(needed, BYTES, "bytes that its outputs need")                                                \
    F(in_use, BYTES, "bytes in use before the eviction")                                           \
    F(budget, BYTES, "the budget in force")                                                        \
    F(candidates, COUNT, "evictable storages")                                                     \
    F(evaluations, COUNT, "scores computed for this choice")                                       \
    F(tied, CODE, "1 when another candidate listed has the same score")                            \
    F(search_ns, NS, "host time spent choosing, or none on a virtual clock")
#define DTR_FIELDS_CANDIDATE(F)                                                                    \
    F(decision, ID, "the decision")                                                                \
    F(rank, COUNT, "0 the victim, then the next best")                                             \
    F(storage, ID, "the candidate")                                                                \
    F(score, REAL, "what the heuristic returned; the lowest is evicted")                           \
    F(cost_ns, NS, "numerator of the score: own cost and what the heuristic adds to it")           \
    F(local_cost_ns, NS, "own cost: sum of the costs of the operators on this storage")            \
    F(bytes, BYTES, "size")                                                                        \
    F(staleness_ns, NS, "logical clock since the last access; none before the first")              \
    F(neighbours, COUNT, "evicted neighbours counted in the cost, or none if not looked at")
#define DTR_FIELDS_REFERENCE(F)                                                                    \
    F(tensor, ID, "the tensor whose external references changed")                                  \
    F(delta, COUNT, "+1 copied, -1 released")                                                      \
    F(n_references, COUNT, "external references afterwards")
#define DTR_FIELDS_PIN(F)                                                                          \
    F(tensor, ID, "the tensor")                                                                    \
    F(change, CODE, "1 pinned, -1 unpinned, 2 made a constant: its operator is dropped")
#define DTR_FIELDS_BUDGET(F)                                                                       \
    F(budget, BYTES, "the budget from now on, or none for no limit")
#define DTR_FIELDS_OUT_OF_MEMORY(F)                                                                \
    F(op, ID, "the operator that does not fit")                                                    \
    F(needed, BYTES, "bytes that its outputs need")                                                \
    F(in_use, BYTES, "bytes in use, none of it evictable")                                         \
    F(budget, BYTES, "the budget")                                                                 \
    F(operator_bytes, BYTES, "inputs and outputs of this operator alone")                          \
    F(overshoot, CODE, "1 when it ran all the same, above the budget")
#define DTR_FIELDS_MARK(F)                                                                         \
    F(mark, CODE, "enum dtr_mark")                                                                 \
    F(name, NAME, "name of the phase or range, or none")                                           \
    F(value, COUNT, "iteration number, or none")
#define DTR_FIELDS_OVERHEAD(F)                                                                     \
    F(part, CODE, "enum dtr_overhead_part")                                                        \
    F(dur_ns, NS, "host time spent in it since the last such event")                               \
    F(count, COUNT, "how often it was entered")
#define DTR_FIELDS_FRAME(F)                                                                        \
    F(frame, ID, "this place in the program, with all its callers")                                \
    F(parent, ID, "the frame that called it, or none")                                             \
    F(name, NAME, "function or line")
#define DTR_FIELDS_ORIGIN(F)                                                                       \
    F(op, ID, "the operator")                                                                      \
    F(frame, ID, "the frame that called it for the first time")
#define DTR_FIELDS_SIGNATURE(F)                                                                    \
    F(op, ID, "the operator")                                                                      \
    F(name, NAME, "element types and shapes of what it takes and makes")
#define DTR_FIELDS_ALLOCATOR(F)                                                                    \
    F(in_use, BYTES, "bytes that the device's allocator holds, scratch and rounding included")     \
    F(peak, BYTES, "the most it held since the run began")                                         \
    F(counted, BYTES, "bytes in use as the runtime counts them at this time")
#define DTR_FIELDS_BARRIER(F)                                                                      \
    F(name, NAME, "what made it necessary")                                                       \
    F(tensors, COUNT, "tensors that became constants: their operators are dropped")                \
    F(replays, COUNT, "operators replayed to bring back those that were missing")                  \
    F(dur_ns, NS, "how long it took, from ts_ns")
#define DTR_FIELDS_HAZARD(F)                                                                       \
    F(tensor, ID, "the tensor that cannot be evicted or replayed safely any more, or none")        \
    F(name, NAME, "why: how its memory got out of sight, or which operator cannot be replayed")

/* The event kinds: E(NAME, name, number, meaning).  Numbers are stored in files: never reuse one.
 * 64 and up are kept for device records. */
#define DTR_EVENT_KINDS(E)                                                                         \
    E(STORAGE, storage, 1, "a storage came to be")                                                 \
    E(TENSOR, tensor, 2, "a tensor came to be")                                                    \
    E(OPERATOR, operator, 3, "an operator was called for the first time")                          \
    E(OPERAND, operand, 4, "one input of an operator")                                             \
    E(OPERATOR_RUN, operator_run, 5, "an operator was executed")                                   \
    E(CHAIN, chain, 6, "a rematerialization ended")                                                \
    E(ALLOCATION, allocation, 7, "a storage became resident")                                      \
    E(FREEING, freeing, 8, "a storage was freed for good")                                         \
    E(EVICTION, eviction, 9, "a storage was evicted")                                              \
    E(DECISION, decision, 10, "a victim was chosen")                                               \
    E(CANDIDATE, candidate, 11, "one of the candidates of a decision")                             \
    E(REFERENCE, reference, 12, "an external reference came or went")                              \
    E(PIN, pin, 13, "a tensor was pinned, unpinned or made a constant")                            \
    E(BUDGET, budget, 14, "the budget changed")                                                    \
    E(OUT_OF_MEMORY, out_of_memory, 15, "an operator did not fit")                                 \
    E(MARK, mark, 16, "the program marked an iteration, a phase or a range")                       \
    E(OVERHEAD, overhead, 17, "host time that dtrscope itself took")                               \
    E(FRAME, frame, 18, "a call stack was seen for the first time, one event a frame")             \
    E(ORIGIN, origin, 19, "where in the program an operator was called")                           \
    E(SIGNATURE, signature, 20, "what an operator takes and makes")                                \
    E(ALLOCATOR, allocator, 21, "the allocator's own count was looked at")                         \
    E(BARRIER, barrier, 22, "all tensors were brought back and became constants")                  \
    E(HAZARD, hazard, 23, "something cannot be replayed safely, and is kept")

/* clang-format on */

typedef enum dtr_event_kind {
#define DTR_KIND_ENUM(NAME, name, number, meaning) DTR_EVENT_##NAME = (number),
    DTR_EVENT_KINDS(DTR_KIND_ENUM)
#undef DTR_KIND_ENUM
} dtr_event_kind;

typedef enum dtr_eviction_reason {
    DTR_EVICTED_FOR_BUDGET = 0, /* the heuristic chose it */
    DTR_EVICTED_EAGERLY = 1,    /* its last external reference went */
    DTR_EVICTED_BY_BANISHING = 2,
    DTR_EVICTED_BY_REQUEST = 3,  /* the program asked */
    DTR_EVICTED_BY_MUTATION = 4, /* an in-place operator took its bytes for its own output */
} dtr_eviction_reason;

typedef enum dtr_mark {
    DTR_MARK_ITERATION = 0, /* a training step begins; value is its number */
    DTR_MARK_FORWARD = 1,   /* the phases last until the next phase or iteration mark */
    DTR_MARK_BACKWARD = 2,
    DTR_MARK_OPTIMIZER = 3,
    DTR_MARK_RANGE_BEGIN = 4, /* a named range of the program; ranges nest */
    DTR_MARK_RANGE_END = 5,
    DTR_MARK_START = 6, /* the measured part of the run begins */
    DTR_MARK_END = 7,   /* the run ended as it should */
} dtr_mark;

typedef enum dtr_overhead_part {
    DTR_OVERHEAD_SEARCH = 0,    /* choosing victims, scoring included */
    DTR_OVERHEAD_RUNTIME = 1,   /* bookkeeping of the core, search and backend excluded */
    DTR_OVERHEAD_RECORDING = 2, /* emitting events */
} dtr_overhead_part;

/* struct dtr_event_eviction and so on: the fields of each kind, in list order. */
#define DTR_FIELD_TYPE_NS                     int64_t
#define DTR_FIELD_TYPE_BYTES                  int64_t
#define DTR_FIELD_TYPE_ID                     int64_t
#define DTR_FIELD_TYPE_NAME                   int64_t
#define DTR_FIELD_TYPE_COUNT                  int64_t
#define DTR_FIELD_TYPE_CODE                   int64_t
#define DTR_FIELD_TYPE_REAL                   double
#define DTR_FIELD_MEMBER(name, unit, meaning) DTR_FIELD_TYPE_##unit name;
#define DTR_KIND_STRUCT(NAME, name, number, meaning)                                               \
    typedef struct dtr_event_##name {                                                              \
        DTR_FIELDS_##NAME(DTR_FIELD_MEMBER)                                                        \
    } dtr_event_##name;
DTR_EVENT_KINDS(DTR_KIND_STRUCT)
#undef DTR_KIND_STRUCT
#undef DTR_FIELD_MEMBER

#define DTR_EVENT_MAX_FIELDS 12

/* One event.  The member of `u` that `kind` names is set; the rest of the union is undefined. */
typedef struct dtr_event {
    int64_t ts_ns;
    int64_t seq;
    int64_t kind; /* dtr_event_kind */
    union {
#define DTR_KIND_MEMBER(NAME, name, number, meaning) dtr_event_##name name##_;
        DTR_EVENT_KINDS(DTR_KIND_MEMBER)
#undef DTR_KIND_MEMBER
        int64_t raw[DTR_EVENT_MAX_FIELDS]; /* the fields in list order; REAL as its bits */
    } u;
} dtr_event;

typedef enum dtr_unit {
    DTR_UNIT_NS,
    DTR_UNIT_BYTES,
    DTR_UNIT_ID,
    DTR_UNIT_NAME,
    DTR_UNIT_COUNT,
    DTR_UNIT_CODE,
    DTR_UNIT_REAL,
} dtr_unit;

typedef struct dtr_field_info {
    const char *name;
    dtr_unit unit;
    const char *meaning;
} dtr_field_info;

typedef struct dtr_event_info {
    dtr_event_kind kind;
    const char *name;
    const char *meaning;
    int n_fields;
    dtr_field_info fields[DTR_EVENT_MAX_FIELDS];
} dtr_event_info;

/* Description of a kind, or NULL for a number that is none.  Static storage; any thread. */
DTR_API const dtr_event_info *dtr_event_info_of(int64_t kind);
/* All kinds in the order of the list. */
DTR_API const dtr_event_info *dtr_event_infos(int *out_n);

/* Where events go.  Both calls come from the thread that uses the runtime, must not call back into
 * the runtime, and must not fail: a sink that loses an event counts it and says so in its own way.
 * `emit` borrows the event for the call.  `name` announces the text of a NAME id before its first
 * use; the text is borrowed for the call.  Either may be NULL. */
typedef struct dtr_sink {
    void *self;
    void (*emit)(void *self, const dtr_event *event);
    void (*name)(void *self, int64_t id, const char *text);
} dtr_sink;

#ifdef __cplusplus
}
#endif
#endif
