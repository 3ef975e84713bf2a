#include "session/stacks.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/store.h"

#define MAX_DEPTH 64
#define OWN_DEPTH 16 /* frames of ours that may lie above the program's */

struct frame {
    void *address;
    int64_t parent; /* DTR_NONE: the outermost */
};

struct dtri_stacks {
    dtr_sink sink;
    int depth;
    int64_t next_seq;
    struct frame *frames; /* a frame's id is its place */
    size_t n, cap;
    int64_t *slots; /* hash table of ids by (address, parent); DTR_NONE: free */
    size_t n_slots;
    struct dtri_stack_source source;
    const void *own; /* base address of libdtr, or NULL when it is part of the program */
};

static size_t hash(void *address, int64_t parent)
{
    uint64_t h = (uint64_t)(uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) ^
                 (uint64_t)parent * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (size_t)(h ^ h >> 29);
}

static int64_t *slot_of(struct dtri_stacks *s, void *address, int64_t parent)
{
    size_t at = hash(address, parent) & (s->n_slots - 1);
    while (s->slots[at] != DTR_NONE &&
           (s->frames[s->slots[at]].address != address || s->frames[s->slots[at]].parent != parent))
        at = (at + 1) & (s->n_slots - 1);
    return &s->slots[at];
}

static bool grow(struct dtri_stacks *s)
{
    size_t n = s->n_slots ? s->n_slots * 2 : 1024;
    if (s->n * 2 < s->n_slots)
        return true;
    int64_t *slots = dtri_malloc(n * sizeof *slots);
    if (!slots)
        return false;
    dtri_free(s->slots);
    s->slots = slots;
    s->n_slots = n;
    for (size_t i = 0; i < n; i++)
        slots[i] = DTR_NONE;
    for (size_t i = 0; i < s->n; i++)
        *slot_of(s, s->frames[i].address, s->frames[i].parent) = (int64_t)i;
    return true;
}

/* --- events ----------------------------------------------------------------------------------- */

static void pass(struct dtri_stacks *s, const dtr_event *event)
{
    dtr_event numbered = *event;
    numbered.seq = s->next_seq++;
    s->sink.emit(s->sink.self, &numbered);
}

static void describe_address(void *address, char *text, size_t size)
{
    Dl_info info;
    /* A return address may already belong to the next function. */
    char *call = (char *)address - 1;
    if (!dladdr(call, &info) || !info.dli_fname) {
        snprintf(text, size, "%p", address);
        return;
    }
    const char *object = strrchr(info.dli_fname, '/');
    object = object ? object + 1 : info.dli_fname;
    if (info.dli_sname)
        snprintf(text, size, "%s+0x%zx (%s)", info.dli_sname,
                 (size_t)(call - (char *)info.dli_saddr), object);
    else
        snprintf(text, size, "%s+0x%zx", object, (size_t)(call - (char *)info.dli_fbase));
}

static int64_t add_frame(struct dtri_stacks *s, void *address, int64_t parent, int64_t ts_ns)
{
    char text[512];
    if (!grow(s) || !DTRI_RESERVE(s->frames, s->cap, s->n + 1))
        return DTR_NONE;
    int64_t *slot = slot_of(s, address, parent);
    if (*slot != DTR_NONE)
        return *slot;
    int64_t id = (int64_t)s->n++;
    s->frames[id] = (struct frame){address, parent};
    *slot = id;
    if (s->source.describe)
        s->source.describe(s->source.self, address, text, sizeof text);
    else
        describe_address(address, text, sizeof text);
    if (s->sink.name)
        s->sink.name(s->sink.self, DTRI_FRAME_NAMES + id, text);
    dtr_event event = {.kind = DTR_EVENT_FRAME, .ts_ns = ts_ns};
    event.u.frame_ =
        (dtr_event_frame){.frame = id, .parent = parent, .name = DTRI_FRAME_NAMES + id};
    pass(s, &event);
    return id;
}

/* Frames of libdtr come first, and say nothing.  Where it is linked into the program, they cannot
 * be told from the program's own. */
static int own_frames(const struct dtri_stacks *s, void *const *addresses, int n)
{
    int own = 0;
    Dl_info info;
    while (s->own && own < n && dladdr(addresses[own], &info) && info.dli_fbase == s->own)
        own++;
    return own;
}

static int take_stack(const struct dtri_stacks *s, void **addresses, int *out_own)
{
    *out_own = 0;
    if (s->source.stack)
        return s->source.stack(s->source.self, addresses, s->depth);
    int n = backtrace(addresses, MAX_DEPTH + OWN_DEPTH);
    *out_own = own_frames(s, addresses, n);
    return n;
}

static void add_origin(struct dtri_stacks *s, int64_t op, int64_t ts_ns)
{
    void *addresses[MAX_DEPTH + OWN_DEPTH];
    int own, n = take_stack(s, addresses, &own);
    int last = own + s->depth < n ? own + s->depth : n;
    int64_t frame = DTR_NONE;
    for (int i = last - 1; i >= own; i--)
        frame = add_frame(s, addresses[i], frame, ts_ns);
    if (frame == DTR_NONE)
        return;
    dtr_event event = {.kind = DTR_EVENT_ORIGIN, .ts_ns = ts_ns};
    event.u.origin_ = (dtr_event_origin){.op = op, .frame = frame};
    pass(s, &event);
}

static void emit(void *self, const dtr_event *event)
{
    struct dtri_stacks *s = self;
    pass(s, event);
    if (event->kind == DTR_EVENT_OPERATOR)
        add_origin(s, event->u.operator_.op, event->ts_ns);
}

static void name(void *self, int64_t id, const char *text)
{
    struct dtri_stacks *s = self;
    if (s->sink.name)
        s->sink.name(s->sink.self, id, text);
}

/* --- life ------------------------------------------------------------------------------------- */

dtr_status dtri_stacks_new(const dtr_sink *sink, int depth, const struct dtri_stack_source *source,
                           struct dtri_stacks **out_stacks, dtr_error *error)
{
    struct dtri_stacks *s = dtri_calloc(1, sizeof *s);
    Dl_info info;
    void *warm_up[1];
    if (!s)
        return dtri_fail_nomem(error, "the call stacks");
    s->sink = *sink;
    if (source)
        s->source = *source;
    s->depth = depth < MAX_DEPTH ? depth : MAX_DEPTH;
    s->own = dladdr((void *)(uintptr_t)dtri_stacks_new, &info) ? info.dli_fbase : NULL;
    if (dladdr((void *)getauxval(AT_ENTRY), &info) && info.dli_fbase == s->own)
        s->own = NULL;
    backtrace(warm_up, 1); /* the first call loads a library */
    *out_stacks = s;
    return DTR_OK;
}

dtr_sink dtri_stacks_sink(struct dtri_stacks *stacks)
{
    return (dtr_sink){.self = stacks, .emit = emit, .name = name};
}

void dtri_stacks_free(struct dtri_stacks *s)
{
    if (!s)
        return;
    dtri_free(s->frames);
    dtri_free(s->slots);
    dtri_free(s);
}
