/* Python pickles, read as data: nothing in them is executed.
 *
 * Opcodes of protocols 0 to 5 that make plain values are read; those that name, call or build
 * objects are refused by name and place before anything else is looked at.  The file is read twice.
 * The first pass checks every opcode and length, and learns how often each memo entry is fetched.
 * The second builds values; those that nothing can reach again are freed at once, and containers
 * that a rule names are handed over when they are complete and then emptied.  So memory follows
 * what is shared in the file and what is handed over as one, not the size of the file.
 *
 * Values are counted references.  No recursion: nesting may be as deep as the file is long. */
#ifndef DTRI_IMPORT_PICKLE_H
#define DTRI_IMPORT_PICKLE_H

#include <stdbool.h>

#include "base/intern.h"
#include "import/input.h"

enum dtri_pickle_type {
    DTRI_PICKLE_NONE,
    DTRI_PICKLE_INT, /* also booleans */
    DTRI_PICKLE_REAL,
    DTRI_PICKLE_TEXT,  /* integer: its number among the reader's texts */
    DTRI_PICKLE_OTHER, /* bytes, integers beyond 64 bits */
    DTRI_PICKLE_LIST,  /* also tuples */
    DTRI_PICKLE_DICT,
};

struct dtri_pickle_node;

struct dtri_pickle_value {
    uint32_t type; /* enum dtri_pickle_type */
    union {
        int64_t integer;
        double real;
        struct dtri_pickle_node *node;
    } u;
};

#define DTRI_PICKLE_PLAIN 0 /* the role of a container without a rule */
#define DTRI_PICKLE_ROOT  1 /* the role of a dict that is the outermost value */

struct dtri_pickle_node {
    struct dtri_pickle_node *previous, *next; /* all nodes there are */
    int64_t references;
    uint8_t type, role;
    bool hand_over;                  /* its rule says so */
    bool closed;                     /* handed over or settled: it can not change any more */
    uint32_t n_children;             /* containers with a role that were begun in it */
    int64_t ordinal;                 /* which of its parent's children it is */
    int64_t parent;                  /* the parent's ordinal */
    int64_t settled;                 /* what dtri_pickle_settle said, or DTR_NONE */
    struct dtri_pickle_value *items; /* of a dict: key, value, key, value... */
    size_t n, cap;
};

/* A container of `type` in one of role `parent`, under `key` or (NULL) as any element, has `role`.
 * With `consume` it is handed over when it is complete. */
struct dtri_pickle_rule {
    uint8_t parent;
    const char *key;
    uint8_t type, role;
    bool consume;
};

struct dtri_pickle;

struct dtri_pickle_visitor {
    void *self;
    const struct dtri_pickle_rule *rules; /* ends with role 0 */
    /* Borrows the node, which is emptied afterwards. */
    dtr_status (*consume)(void *self, struct dtri_pickle *pickle, struct dtri_pickle_node *node,
                          dtr_error *error);
};

/* Texts are numbered by `texts`, which may hold some already; those longer than 64 KiB are cut.
 * DTR_E_FORMAT: damaged, or no pickle.  DTR_E_UNSUPPORTED: it wants to execute something.
 * DTR_E_LIMIT: more values at once than a snapshot needs. */
dtr_status dtri_pickle_read(struct dtri_input *in, struct dtri_intern *texts,
                            const struct dtri_pickle_visitor *visitor, dtr_error *error);

/* For the visitor: frees the node's items and keeps one number in their place, for nodes that
 * several others share. */
void dtri_pickle_settle(struct dtri_pickle *pickle, struct dtri_pickle_node *node, int64_t number);

#endif
