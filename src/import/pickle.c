#include "import/pickle.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dtr/event.h"
#include "import/memo.h"
#include "import/opcode.h"

#define MAX_BYTES (INT64_C(1) << 30) /* of values at one time */

typedef struct dtri_pickle_node node_t;
typedef struct dtri_pickle_value value_t;

struct dtri_pickle {
    struct dtri_input *in;
    struct dtri_intern *texts;
    const struct dtri_pickle_visitor *visitor;
    struct dtri_op op;
    struct dtri_memo memo;
    value_t *kept; /* by place in the memo */
    value_t *stack;
    size_t n, cap;
    size_t *marks; /* heights of the stack */
    size_t n_marks, cap_marks;
    node_t *nodes;
    int64_t bytes;
};

static dtr_status damaged(const struct dtri_pickle *p, const char *what, dtr_error *error)
{
    return dtri_fail(error, DTR_E_FORMAT, 0,
                     "%s: byte %lld: %s: %s; the file is damaged: copy or write it again",
                     p->in->path, (long long)p->op.at, dtri_opcode_name(p->op.code), what);
}

/* --- values ----------------------------------------------------------------------------------- */

static dtr_status spend(struct dtri_pickle *p, size_t bytes, dtr_error *error)
{
    p->bytes += (int64_t)bytes;
    if (p->bytes <= MAX_BYTES)
        return DTR_OK;
    return dtri_fail(error, DTR_E_LIMIT, 0,
                     "%s: byte %lld: more than %lld MiB of values that are no memory events; this "
                     "is no snapshot of torch.cuda.memory",
                     p->in->path, (long long)p->op.at, (long long)(MAX_BYTES >> 20));
}

static bool is_container(const value_t *value)
{
    return value->type >= DTRI_PICKLE_LIST;
}

static void unlink_node(struct dtri_pickle *p, node_t *node)
{
    if (node->previous)
        node->previous->next = node->next;
    else
        p->nodes = node->next;
    if (node->next)
        node->next->previous = node->previous;
}

/* Drops one reference; *dead chains the nodes that have none left. */
static void drop(struct dtri_pickle *p, const value_t *value, node_t **dead)
{
    if (!is_container(value) || --value->u.node->references > 0)
        return;
    unlink_node(p, value->u.node);
    value->u.node->next = *dead;
    *dead = value->u.node;
}

static void drop_items(struct dtri_pickle *p, node_t *node, node_t **dead)
{
    for (size_t i = 0; i < node->n; i++)
        drop(p, &node->items[i], dead);
    p->bytes -= (int64_t)(node->cap * sizeof *node->items);
    dtri_free(node->items);
    node->items = NULL;
    node->n = node->cap = 0;
}

static void bury(struct dtri_pickle *p, node_t *dead)
{
    while (dead) {
        node_t *node = dead;
        dead = node->next;
        drop_items(p, node, &dead);
        p->bytes -= (int64_t)sizeof *node;
        dtri_free(node);
    }
}

static void release(struct dtri_pickle *p, const value_t *value)
{
    node_t *dead = NULL;
    drop(p, value, &dead);
    bury(p, dead);
}

static void empty(struct dtri_pickle *p, node_t *node)
{
    node_t *dead = NULL;
    drop_items(p, node, &dead);
    node->closed = true;
    bury(p, dead);
}

void dtri_pickle_settle(struct dtri_pickle *p, node_t *node, int64_t number)
{
    empty(p, node);
    node->settled = number;
}

/* Takes over the caller's reference. */
static dtr_status push(struct dtri_pickle *p, value_t value, dtr_error *error)
{
    size_t before = p->cap;
    if (!DTRI_RESERVE(p->stack, p->cap, p->n + 1))
        return dtri_fail_nomem(error, "the values of a pickle");
    p->stack[p->n++] = value;
    return before == p->cap ? DTR_OK : spend(p, (p->cap - before) * sizeof value, error);
}

static dtr_status push_number(struct dtri_pickle *p, enum dtri_pickle_type type, int64_t integer,
                              dtr_error *error)
{
    return push(p, (value_t){.type = type, .u.integer = integer}, error);
}

static dtr_status push_text(struct dtri_pickle *p, dtr_error *error)
{
    int is_new = 0;
    int64_t id = dtri_intern(p->texts, p->op.text, &is_new);
    if (id < 0)
        return dtri_fail_nomem(error, "the texts of a pickle");
    dtr_status status = is_new ? spend(p, p->op.n_text + 48, error) : DTR_OK;
    return status == DTR_OK ? push_number(p, DTRI_PICKLE_TEXT, id, error) : status;
}

static dtr_status push_copy(struct dtri_pickle *p, value_t value, dtr_error *error)
{
    if (is_container(&value))
        value.u.node->references++;
    return push(p, value, error);
}

static dtr_status append(struct dtri_pickle *p, node_t *node, value_t value, dtr_error *error)
{
    size_t before = node->cap;
    if (!DTRI_RESERVE(node->items, node->cap, node->n + 1))
        return dtri_fail_nomem(error, "the values of a pickle");
    node->items[node->n++] = value;
    return before == node->cap ? DTR_OK : spend(p, (node->cap - before) * sizeof value, error);
}

/* --- containers ------------------------------------------------------------------------------- */

/* Where a container on top of the stack will go: into `parent` under `key` (NULL: any element). */
static const struct dtri_pickle_rule *find_rule(const struct dtri_pickle *p, const value_t *parent,
                                                const value_t *key, uint8_t type)
{
    if (!is_container(parent) || !parent->u.node->role || (key && key->type != DTRI_PICKLE_TEXT))
        return NULL;
    for (const struct dtri_pickle_rule *rule = p->visitor->rules; rule->role; rule++)
        if (rule->parent == parent->u.node->role && rule->type == type && !rule->key == !key &&
            (!key || strcmp(rule->key, p->texts->texts[key->u.integer]) == 0))
            return rule;
    return NULL;
}

/* The pickle tells only later what becomes of the container; its place on the stack shows it: in a
 * batch behind a mark, or right behind what it will be appended to. */
static const struct dtri_pickle_rule *place(const struct dtri_pickle *p, uint8_t type,
                                            node_t **out_parent)
{
    const struct dtri_pickle_rule *rule = NULL;
    size_t mark = p->n_marks ? p->marks[p->n_marks - 1] : 0;
    const value_t *parent = NULL, *top = p->n ? &p->stack[p->n - 1] : NULL;
    if (mark > 0) {
        parent = &p->stack[mark - 1];
        if (parent->type == DTRI_PICKLE_LIST)
            rule = find_rule(p, parent, NULL, type);
        else if (parent->type == DTRI_PICKLE_DICT && (p->n - mark) % 2)
            rule = find_rule(p, parent, top, type);
    }
    if (!rule && top && p->n > mark && top->type == DTRI_PICKLE_LIST) {
        parent = top;
        rule = find_rule(p, parent, NULL, type);
    } else if (!rule && top && p->n > mark + 1 && top[-1].type == DTRI_PICKLE_DICT) {
        parent = &top[-1];
        rule = find_rule(p, parent, top, type);
    }
    if (rule)
        *out_parent = parent->u.node;
    return rule;
}

/* Entries of a batch that were handed over already need not wait for its end. */
static void drop_handed_over(struct dtri_pickle *p)
{
    size_t mark = p->n_marks ? p->marks[p->n_marks - 1] : SIZE_MAX;
    while (p->n > mark && mark > 0 && p->n > 0) {
        const value_t *top = &p->stack[p->n - 1];
        if (p->stack[mark - 1].type != DTRI_PICKLE_LIST || !is_container(top) ||
            !top->u.node->hand_over || !top->u.node->closed)
            return;
        p->n--;
        release(p, top);
    }
}

static dtr_status begin(struct dtri_pickle *p, enum dtri_pickle_type type, node_t **out_node,
                        dtr_error *error)
{
    node_t *parent = NULL;
    const struct dtri_pickle_rule *rule = place(p, (uint8_t)type, &parent);
    node_t *node = dtri_calloc(1, sizeof *node);
    if (!node)
        return dtri_fail_nomem(error, "the values of a pickle");
    node->references = 1;
    node->type = (uint8_t)type;
    node->settled = DTR_NONE;
    if (rule) {
        node->role = rule->role;
        node->hand_over = rule->consume;
        node->ordinal = parent->n_children++;
        node->parent = parent->ordinal;
    } else if (type == DTRI_PICKLE_DICT && p->n == 0) {
        node->role = DTRI_PICKLE_ROOT;
    }
    node->next = p->nodes;
    if (p->nodes)
        p->nodes->previous = node;
    p->nodes = node;
    *out_node = node;
    dtr_status status = spend(p, sizeof *node, error);
    value_t value = {.type = type, .u.node = node};
    return status == DTR_OK ? push(p, value, error) : status;
}

static dtr_status begin_empty(struct dtri_pickle *p, enum dtri_pickle_type type, dtr_error *error)
{
    node_t *node;
    drop_handed_over(p);
    return begin(p, type, &node, error);
}

static dtr_status hand_over(struct dtri_pickle *p, node_t *node, dtr_error *error)
{
    if (!node->hand_over || node->closed)
        return DTR_OK;
    dtr_status status = p->visitor->consume(p->visitor->self, p, node, error);
    empty(p, node);
    return status;
}

/* Pops the topmost mark; *out_from is the height of the stack at it. */
static dtr_status pop_mark(struct dtri_pickle *p, size_t *out_from, dtr_error *error)
{
    if (!p->n_marks)
        return damaged(p, "there is no mark", error);
    *out_from = p->marks[--p->n_marks];
    return DTR_OK;
}

/* What n values on top are to go into: the container below them. */
static dtr_status target(struct dtri_pickle *p, size_t n, enum dtri_pickle_type type,
                         node_t **out_node, dtr_error *error)
{
    size_t floor = p->n_marks ? p->marks[p->n_marks - 1] : 0;
    if (p->n < floor + n + 1 || p->stack[p->n - n - 1].type != type)
        return damaged(p, type == DTRI_PICKLE_LIST ? "there is no list" : "there is no dict",
                       error);
    *out_node = p->stack[p->n - n - 1].u.node;
    if ((*out_node)->closed)
        return damaged(p, "it changes what was complete", error);
    return DTR_OK;
}

/* Moves the n values on top into the list below them. */
static dtr_status append_top(struct dtri_pickle *p, size_t n, dtr_error *error)
{
    node_t *list;
    dtr_status status = target(p, n, DTRI_PICKLE_LIST, &list, error);
    size_t from = p->n - n;
    for (size_t i = from; i < p->n && status == DTR_OK; i++) {
        value_t value = p->stack[i];
        p->stack[i].type = DTRI_PICKLE_NONE; /* moved */
        if (is_container(&value) && value.u.node->hand_over) {
            status = hand_over(p, value.u.node, error);
            release(p, &value);
        } else {
            status = append(p, list, value, error);
        }
    }
    if (status == DTR_OK)
        p->n = from;
    return status;
}

static dtr_status set_top(struct dtri_pickle *p, size_t n, bool complete, dtr_error *error)
{
    node_t *dict;
    dtr_status status = n % 2 ? damaged(p, "a key without a value", error)
                              : target(p, n, DTRI_PICKLE_DICT, &dict, error);
    size_t from = p->n - n;
    for (size_t i = from; status == DTR_OK && i < p->n; i++) {
        value_t value = p->stack[i];
        p->stack[i].type = DTRI_PICKLE_NONE;
        status = append(p, dict, value, error);
    }
    if (status != DTR_OK)
        return status;
    p->n = from;
    return complete ? hand_over(p, dict, error) : DTR_OK;
}

/* Puts the values from `from` on into a new list or dict in their place. */
static dtr_status collect(struct dtri_pickle *p, size_t from, enum dtri_pickle_type type,
                          dtr_error *error)
{
    node_t *node;
    size_t n = p->n - from;
    if (p->n < from)
        return damaged(p, "there are not enough values", error);
    if (n == 0)
        return begin_empty(p, type, error);
    /* The new one is pushed behind its items; they move in, and it takes the first one's place. */
    dtr_status status = begin(p, type, &node, error);
    n = p->n - 1 - from;
    if (status == DTR_OK && type == DTRI_PICKLE_DICT && n % 2)
        return damaged(p, "a key without a value", error);
    for (size_t i = from; i < from + n && status == DTR_OK; i++) {
        value_t value = p->stack[i];
        p->stack[i].type = DTRI_PICKLE_NONE;
        status = append(p, node, value, error);
    }
    if (status != DTR_OK)
        return status;
    p->stack[from] = p->stack[p->n - 1];
    p->n = from + 1;
    return DTR_OK;
}

static dtr_status collect_marked(struct dtri_pickle *p, enum dtri_pickle_type type,
                                 dtr_error *error)
{
    size_t from = 0;
    dtr_status status = pop_mark(p, &from, error);
    return status == DTR_OK ? collect(p, from, type, error) : status;
}

static dtr_status collect_few(struct dtri_pickle *p, size_t n, dtr_error *error)
{
    size_t floor = p->n_marks ? p->marks[p->n_marks - 1] : 0;
    if (p->n < floor + n)
        return damaged(p, "there are not enough values", error);
    return collect(p, p->n - n, DTRI_PICKLE_LIST, error);
}

/* --- memo ------------------------------------------------------------------------------------- */

/* In a real pickle entries are numbered one by one, so none is beyond the bytes read so far. */
static dtr_status memo_index(const struct dtri_pickle *p, uint64_t *out, dtr_error *error)
{
    if (p->op.big || p->op.integer < 0 || p->op.integer > p->op.at)
        return damaged(p, "the number of a memo entry is out of range", error);
    *out = (uint64_t)p->op.integer;
    return DTR_OK;
}

static bool is_put(enum dtri_opcode code)
{
    return code == DTRI_OP_PUT || code == DTRI_OP_BINPUT || code == DTRI_OP_LONG_BINPUT ||
           code == DTRI_OP_MEMOIZE;
}

static bool is_get(enum dtri_opcode code)
{
    return code == DTRI_OP_GET || code == DTRI_OP_BINGET || code == DTRI_OP_LONG_BINGET;
}

/* Of the op at hand; the same in both passes. */
static dtr_status memo_store(struct dtri_pickle *p, uint64_t *out_index, dtr_error *error)
{
    *out_index = p->memo.n_stored;
    dtr_status status = p->op.code == DTRI_OP_MEMOIZE ? DTR_OK : memo_index(p, out_index, error);
    if (status == DTR_OK && !dtri_memo_store(&p->memo, *out_index))
        status = dtri_fail_nomem(error, "the memo of a pickle");
    return status;
}

static dtr_status memo_fetch(const struct dtri_pickle *p, uint64_t *out_index, dtr_error *error)
{
    dtr_status status = memo_index(p, out_index, error);
    if (status == DTR_OK && !dtri_bits_get(&p->memo.stored, *out_index))
        status = damaged(p, "it fetches a memo entry that was not stored", error);
    return status;
}

static dtr_status put(struct dtri_pickle *p, dtr_error *error)
{
    uint64_t index;
    dtr_status status = memo_store(p, &index, error);
    if (status != DTR_OK || !dtri_bits_get(&p->memo.fetched, index))
        return status;
    size_t floor = p->n_marks ? p->marks[p->n_marks - 1] : 0;
    if (p->n <= floor)
        return damaged(p, "there is no value", error);
    value_t value = p->stack[p->n - 1], *kept = &p->kept[dtri_memo_place(&p->memo, index)];
    if (is_container(&value))
        value.u.node->references++;
    release(p, kept);
    *kept = value;
    return DTR_OK;
}

static dtr_status get(struct dtri_pickle *p, dtr_error *error)
{
    uint64_t index;
    dtr_status status = memo_fetch(p, &index, error);
    if (status != DTR_OK)
        return status;
    value_t *kept = &p->kept[dtri_memo_place(&p->memo, index)], value = *kept;
    if (!dtri_memo_is_last(&p->memo, index))
        return push_copy(p, value, error);
    kept->type = DTRI_PICKLE_NONE; /* moved */
    return push(p, value, error);
}

/* --- the two passes --------------------------------------------------------------------------- */

static dtr_status scan(struct dtri_pickle *p, dtr_error *error)
{
    uint64_t index;
    do {
        dtr_status status = dtri_opcode_next(p->in, &p->op, error);
        if (status == DTR_OK && is_put(p->op.code))
            status = memo_store(p, &index, error);
        if (status == DTR_OK && is_get(p->op.code)) {
            status = memo_fetch(p, &index, error);
            if (status == DTR_OK && !dtri_memo_fetch(&p->memo, index))
                status = dtri_fail_nomem(error, "the memo of a pickle");
        }
        if (status != DTR_OK)
            return status;
    } while (p->op.code != DTRI_OP_STOP);
    if (!dtri_memo_rank(&p->memo))
        return dtri_fail_nomem(error, "the memo of a pickle");
    p->kept = dtri_calloc(p->memo.n_fetched, sizeof *p->kept);
    return p->kept ? DTR_OK : dtri_fail_nomem(error, "the memo of a pickle");
}

static dtr_status push_scalar(struct dtri_pickle *p, dtr_error *error)
{
    switch (p->op.code) {
    case DTRI_OP_NONE:
        return push_number(p, DTRI_PICKLE_NONE, 0, error);
    case DTRI_OP_NEWTRUE:
    case DTRI_OP_NEWFALSE:
        return push_number(p, DTRI_PICKLE_INT, p->op.code == DTRI_OP_NEWTRUE, error);
    case DTRI_OP_FLOAT:
    case DTRI_OP_BINFLOAT:
        return push(p, (value_t){.type = DTRI_PICKLE_REAL, .u.real = p->op.real}, error);
    case DTRI_OP_BINBYTES:
    case DTRI_OP_SHORT_BINBYTES:
    case DTRI_OP_BINBYTES8:
    case DTRI_OP_BYTEARRAY8:
        return push_number(p, DTRI_PICKLE_OTHER, 0, error);
    case DTRI_OP_INT:
    case DTRI_OP_LONG:
    case DTRI_OP_BININT:
    case DTRI_OP_BININT1:
    case DTRI_OP_BININT2:
    case DTRI_OP_LONG1:
    case DTRI_OP_LONG4:
        return push_number(p, p->op.big ? DTRI_PICKLE_OTHER : DTRI_PICKLE_INT,
                           p->op.big ? 0 : p->op.integer, error);
    default:
        return push_text(p, error);
    }
}

static dtr_status push_mark(struct dtri_pickle *p, dtr_error *error)
{
    size_t before = p->cap_marks;
    if (!DTRI_RESERVE(p->marks, p->cap_marks, p->n_marks + 1))
        return dtri_fail_nomem(error, "the values of a pickle");
    p->marks[p->n_marks++] = p->n;
    return spend(p, (p->cap_marks - before) * sizeof *p->marks, error);
}

static dtr_status pop(struct dtri_pickle *p, dtr_error *error)
{
    if (p->n_marks && p->marks[p->n_marks - 1] == p->n) {
        p->n_marks--;
        return DTR_OK;
    }
    if (!p->n)
        return damaged(p, "there is no value", error);
    release(p, &p->stack[--p->n]);
    return DTR_OK;
}

static dtr_status pop_to_mark(struct dtri_pickle *p, dtr_error *error)
{
    size_t from = 0;
    dtr_status status = pop_mark(p, &from, error);
    while (status == DTR_OK && p->n > from)
        release(p, &p->stack[--p->n]);
    return status;
}

static dtr_status with_marked(struct dtri_pickle *p, dtr_error *error)
{
    size_t from = 0;
    dtr_status status = pop_mark(p, &from, error);
    if (status != DTR_OK)
        return status;
    return p->op.code == DTRI_OP_APPENDS ? append_top(p, p->n - from, error)
                                         : set_top(p, p->n - from, true, error);
}

static dtr_status execute(struct dtri_pickle *p, dtr_error *error)
{
    switch (p->op.code) {
    case DTRI_OP_PROTO:
    case DTRI_OP_FRAME:
    case DTRI_OP_STOP:
        return DTR_OK;
    case DTRI_OP_MARK:
        return push_mark(p, error);
    case DTRI_OP_POP:
        return pop(p, error);
    case DTRI_OP_POP_MARK:
        return pop_to_mark(p, error);
    case DTRI_OP_DUP:
        return p->n ? push_copy(p, p->stack[p->n - 1], error)
                    : damaged(p, "there is no value", error);
    case DTRI_OP_EMPTY_LIST:
    case DTRI_OP_EMPTY_TUPLE:
        return begin_empty(p, DTRI_PICKLE_LIST, error);
    case DTRI_OP_EMPTY_DICT:
        return begin_empty(p, DTRI_PICKLE_DICT, error);
    case DTRI_OP_LIST:
    case DTRI_OP_TUPLE:
        return collect_marked(p, DTRI_PICKLE_LIST, error);
    case DTRI_OP_DICT:
        return collect_marked(p, DTRI_PICKLE_DICT, error);
    case DTRI_OP_TUPLE1:
    case DTRI_OP_TUPLE2:
    case DTRI_OP_TUPLE3:
        return collect_few(p, (size_t)p->op.code - DTRI_OP_TUPLE1 + 1, error);
    case DTRI_OP_APPEND:
        return append_top(p, 1, error);
    case DTRI_OP_SETITEM:
        return set_top(p, 2, false, error);
    case DTRI_OP_APPENDS:
    case DTRI_OP_SETITEMS:
        return with_marked(p, error);
    default:
        return is_put(p->op.code)   ? put(p, error)
               : is_get(p->op.code) ? get(p, error)
                                    : push_scalar(p, error);
    }
}

static dtr_status build(struct dtri_pickle *p, dtr_error *error)
{
    dtr_status status = dtri_input_rewind(p->in, error);
    if (status != DTR_OK)
        return status;
    do {
        status = dtri_opcode_next(p->in, &p->op, error);
        if (status == DTR_OK)
            status = execute(p, error);
        if (status != DTR_OK)
            return status;
    } while (p->op.code != DTRI_OP_STOP);
    return p->n ? DTR_OK : damaged(p, "there is no value", error);
}

dtr_status dtri_pickle_read(struct dtri_input *in, struct dtri_intern *texts,
                            const struct dtri_pickle_visitor *visitor, dtr_error *error)
{
    struct dtri_pickle *p = dtri_malloc(sizeof *p);
    if (!p)
        return dtri_fail_nomem(error, "reading a pickle");
    memset(p, 0, sizeof *p);
    p->in = in;
    p->texts = texts;
    p->visitor = visitor;
    dtr_status status = scan(p, error);
    if (status == DTR_OK)
        status = build(p, error);
    while (p->nodes) { /* cycles too */
        node_t *next = p->nodes->next;
        dtri_free(p->nodes->items);
        dtri_free(p->nodes);
        p->nodes = next;
    }
    dtri_memo_done(&p->memo);
    dtri_free(p->kept);
    dtri_free(p->stack);
    dtri_free(p->marks);
    dtri_free(p);
    return status;
}
