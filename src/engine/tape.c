/* The tape and the walk back over it.
 *
 * dtr_grad visits the nodes below the loss from the newest to the oldest.  All that use a node's
 * outputs are newer, so when its turn comes its gradients are complete.  Sums of gradients are
 * formed in that order, which depends on the program alone; hence results are the same to the last
 * bit however operators are replayed.  Nothing here recurses: depth is bounded by memory only. */
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/engine.h"

/* --- nodes ------------------------------------------------------------------------------------ */

static struct dtri_node *node_new(dtr_engine *e)
{
    struct dtri_node *node = dtri_calloc(1, sizeof *node);
    if (node)
        node->id = ++e->next_node_id;
    return node;
}

struct dtri_node *dtri_node_ref(struct dtri_node *node)
{
    if (node)
        node->refs++;
    return node;
}

void dtri_node_spend(dtr_engine *e, struct dtri_node *node)
{
    for (int i = 0; i < DTRI_MAX_OPERANDS; i++) {
        if (node->kept_in[i])
            dtr_release(e->runtime, node->kept_in[i]);
        if (node->kept_out[i])
            dtr_release(e->runtime, node->kept_out[i]);
        node->kept_in[i] = node->kept_out[i] = DTR_NO_TENSOR;
    }
    node->spent = true;
}

void dtri_node_unref(dtr_engine *e, struct dtri_node *node)
{
    struct dtri_node *dead = NULL;
    if (node && --node->refs == 0) {
        node->next = NULL;
        dead = node;
    }
    while (dead) {
        node = dead;
        dead = node->next;
        dtri_node_spend(e, node);
        for (int i = 0; i < node->n_inputs; i++) {
            struct dtri_node *below = node->in[i];
            if (below && --below->refs == 0) {
                below->next = dead;
                dead = below;
            }
        }
        dtri_free(node);
    }
}

bool dtri_tape_leaf(dtr_array *a)
{
    struct dtri_node *node = node_new(a->engine);
    if (!node)
        return false;
    node->n_outputs = 1;
    node->out_shape[0] = a->shape;
    dtri_node_unref(a->engine, a->node);
    a->node = dtri_node_ref(node);
    a->output = 0;
    return true;
}

/* --- recording -------------------------------------------------------------------------------- */

/* Retains a tensor for a vjp; a failure is remembered and the tensor left out. */
static dtr_tensor keep(dtr_engine *e, const dtr_array *a)
{
    dtr_status status = dtr_retain(e->runtime, a->tensor);
    if (status == DTR_OK)
        return a->tensor;
    dtri_engine_fail(e, status, "a tensor cannot be kept for its gradient");
    return DTR_NO_TENSOR;
}

static void keep_operands(dtr_engine *e, struct dtri_node *node, dtr_array *const *in,
                          dtr_array *const *out)
{
    unsigned inputs = 0, outputs = 0;
    for (int i = 0; i < node->n_inputs && i < DTRI_MAX_KEEPS; i++) {
        if (!node->in[i])
            continue;
        inputs |= node->op->keeps[i].inputs;
        outputs |= node->op->keeps[i].outputs;
    }
    for (int i = 0; i < node->n_inputs; i++)
        if (inputs & 1u << i)
            node->kept_in[i] = keep(e, in[i]);
    for (int i = 0; i < node->n_outputs; i++)
        if (outputs & 1u << i)
            node->kept_out[i] = keep(e, out[i]);
}

void dtri_tape_record(dtr_engine *e, const struct dtri_array_op *op, const struct dtri_params *p,
                      dtr_array *const *in, int n_inputs, dtr_array *const *out, int n_outputs)
{
    bool flows = false;
    for (int i = 0; i < n_inputs; i++)
        flows = flows || in[i]->node;
    if (!flows || !op->vjp)
        return;
    struct dtri_node *node = node_new(e);
    if (!node) {
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for the tape");
        return;
    }
    node->op = op;
    if (p)
        node->p = *p;
    node->n_inputs = n_inputs;
    node->n_outputs = n_outputs;
    for (int i = 0; i < n_inputs; i++) {
        node->in[i] = dtri_node_ref(in[i]->node);
        node->in_output[i] = (uint8_t)in[i]->output;
        node->in_shape[i] = in[i]->shape;
    }
    for (int i = 0; i < n_outputs; i++) {
        node->out_shape[i] = out[i]->shape;
        out[i]->node = dtri_node_ref(node);
        out[i]->output = i;
    }
    keep_operands(e, node, in, out);
}

dtr_array *dtr_detach(dtr_array *a)
{
    dtr_array *alias = dtri_array_alias(a);
    if (alias->tensor) {
        dtri_node_unref(a->engine, alias->node);
        alias->node = NULL;
    }
    return alias;
}

dtr_array *dtr_variable(dtr_array *a)
{
    dtr_array *alias = dtr_detach(a);
    if (alias->tensor && !dtri_tape_leaf(alias))
        dtri_engine_fail(a->engine, DTR_E_NOMEM, "no memory for the tape");
    return alias;
}

/* --- walking back ----------------------------------------------------------------------------- */

/* One call of dtr_grad. */
struct walk {
    dtr_engine *engine;
    int scope; /* where gradients live until they are used */
    bool create_graph;
    struct dtri_node **nodes; /* all below the loss */
    size_t n_nodes, cap_nodes;
};

static bool visit(struct walk *w, struct dtri_node *node)
{
    if (!node || node->visit == w->engine->visit)
        return true;
    if (!DTRI_RESERVE(w->nodes, w->cap_nodes, w->n_nodes + 1)) {
        dtri_engine_fail(w->engine, DTR_E_NOMEM, "no memory for a gradient");
        return false;
    }
    node->visit = w->engine->visit;
    node->needed = node->target = false;
    w->nodes[w->n_nodes++] = node;
    return true;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = (*(struct dtri_node *const *)a)->id, y = (*(struct dtri_node *const *)b)->id;
    return (x > y) - (x < y);
}

/* All nodes below `loss`, oldest first. */
static bool collect(struct walk *w, struct dtri_node *loss)
{
    w->engine->visit++;
    bool ok = visit(w, loss);
    for (size_t at = 0; at < w->n_nodes && ok; at++)
        for (int i = 0; i < w->nodes[at]->n_inputs && ok; i++)
            ok = visit(w, w->nodes[at]->in[i]);
    if (ok && w->n_nodes)
        qsort(w->nodes, w->n_nodes, sizeof(struct dtri_node *), by_id);
    return ok;
}

static void mark_needed(struct walk *w, dtr_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++)
        if (arrays[i]->node && arrays[i]->node->visit == w->engine->visit)
            arrays[i]->node->target = arrays[i]->node->needed = true;
    for (size_t at = 0; at < w->n_nodes; at++)
        for (int i = 0; i < w->nodes[at]->n_inputs; i++)
            if (w->nodes[at]->in[i] && w->nodes[at]->in[i]->needed)
                w->nodes[at]->needed = true;
}

/* Adds `grad`, which nothing else owns, to what an output of a node has. */
static void accumulate(struct walk *w, struct dtri_node *node, int output, dtr_array *grad)
{
    dtr_array *old = node->grads[output];
    if (old) {
        dtr_array *sum = dtr_add(old, grad);
        if (old->tensor)
            dtri_array_free(old);
        if (grad->tensor)
            dtri_array_free(grad);
        grad = sum;
    }
    if (grad->tensor)
        dtri_array_move(grad, w->scope);
    node->grads[output] = grad;
}

static void drop_grads(struct dtri_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        if (node->grads[i] && node->grads[i]->tensor)
            dtri_array_free(node->grads[i]);
        node->grads[i] = NULL;
    }
}

/* An array for a tensor that a node keeps, joined to the tape again. */
static dtr_array *revive(dtr_engine *e, dtr_tensor tensor, const dtr_shape *shape, bool integers,
                         struct dtri_node *node, int output)
{
    if (!tensor)
        return NULL;
    dtr_status status = dtr_retain(e->runtime, tensor);
    if (status != DTR_OK) {
        dtri_engine_fail(e, status, "a kept tensor has too many references");
        return dtri_failed(e);
    }
    dtr_array *a = dtri_array_new(e, *shape, integers, tensor);
    if (a->tensor) {
        a->node = dtri_node_ref(node);
        a->output = output;
    }
    return a;
}

static void prepare_vjp(dtr_engine *e, struct dtri_node *node, struct dtri_vjp *v)
{
    *v = (struct dtri_vjp){.engine = e, .node = node, .p = &node->p};
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->in[i] && node->in[i]->needed)
            v->wants |= 1u << i;
        v->in[i] = revive(e, node->kept_in[i], &node->in_shape[i],
                          node->op->integer_inputs >> i & 1, node->in[i], node->in_output[i]);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        v->out[i] = revive(e, node->kept_out[i], &node->out_shape[i], false, node, i);
        v->g[i] = node->grads[i];
    }
}

/* Takes the gradients of a node's outputs to those of its inputs. */
static void step_back(struct walk *w, struct dtri_node *node)
{
    dtr_engine *e = w->engine;
    struct dtri_vjp v;
    if (node->spent) {
        dtri_engine_fail(e, DTR_E_STATE,
                         "a second gradient through %s, which the first one used up; ask for the "
                         "first with create_graph",
                         node->op->name);
        return;
    }
    dtr_scope_enter(e);
    prepare_vjp(e, node, &v);
    if (dtri_engine_ok(e))
        node->op->vjp(&v);
    for (int i = 0; i < node->n_inputs; i++)
        if (v.result[i] && v.result[i]->tensor)
            dtri_array_move(v.result[i], w->scope);
    dtr_scope_leave(e, NULL);
    if (!w->create_graph)
        dtri_node_spend(e, node);
    if (!node->target)
        drop_grads(node);
    for (int i = 0; i < node->n_inputs; i++) /* last: the sums may take the space of what went */
        if (v.result[i])
            accumulate(w, node->in[i], node->in_output[i], v.result[i]);
}

static bool has_grad(const struct dtri_node *node)
{
    for (int i = 0; i < node->n_outputs; i++)
        if (node->grads[i])
            return true;
    return false;
}

static void walk_back(struct walk *w, dtr_array *loss, dtr_array *const *arrays, int n)
{
    dtr_engine *e = w->engine;
    if (!collect(w, loss->node))
        return;
    mark_needed(w, arrays, n);
    if (!loss->node || !loss->node->needed)
        return;
    accumulate(w, loss->node, loss->output, dtr_array_full(e, loss->shape, 1));
    for (size_t at = w->n_nodes; at-- > 0 && dtri_engine_ok(e);) {
        struct dtri_node *node = w->nodes[at];
        if (node->op && node->needed && has_grad(node))
            step_back(w, node);
    }
}

static dtr_array *grad_of(struct walk *w, const dtr_array *array)
{
    const struct dtri_node *node = array->node;
    if (!dtri_engine_ok(w->engine))
        return dtri_failed(w->engine);
    if (node && node->visit == w->engine->visit && node->grads[array->output])
        return dtri_array_alias(node->grads[array->output]);
    return dtr_array_full(w->engine, array->shape, 0);
}

static bool may_grad(dtr_engine *e, const dtr_array *loss, dtr_array *const *arrays, int n)
{
    if (dtri_engine_ok(e) && (loss->integers || dtri_shape_size(&loss->shape) != 1))
        dtri_engine_fail(
            e, DTR_E_INVALID, "a gradient is of one float; the loss has %lld elements%s",
            (long long)dtri_shape_size(&loss->shape), loss->integers ? ", integers" : "");
    for (int i = 0; i < n; i++)
        if (dtri_engine_ok(e) && !arrays[i]->node)
            dtri_engine_fail(e, DTR_E_INVALID,
                             "array %d is neither a parameter, nor a variable, nor made from one",
                             i);
    return dtri_engine_ok(e);
}

dtr_status dtr_grad(dtr_array *loss, dtr_array *const *arrays, int n, dtr_array **out_grads,
                    bool create_graph)
{
    dtr_engine *e = loss->engine;
    bool taping = e->taping;
    for (int i = 0; i < n; i++)
        out_grads[i] = dtri_failed(e);
    if (!may_grad(e, loss, arrays, n))
        return e->error.status;
    dtr_mark_emit(e->runtime, DTR_MARK_BACKWARD, DTR_NONE, DTR_NONE);
    int outer = (int)e->n_scopes - 1;
    dtr_scope_enter(e);
    struct walk w = {.engine = e, .scope = outer + 1, .create_graph = create_graph};
    e->taping = taping && create_graph;
    if (dtri_engine_ok(e))
        walk_back(&w, loss, arrays, n);
    for (int i = 0; i < n; i++) {
        out_grads[i] = grad_of(&w, arrays[i]);
        if (out_grads[i]->tensor)
            dtri_array_move(out_grads[i], outer);
    }
    for (size_t at = 0; at < w.n_nodes; at++)
        drop_grads(w.nodes[at]);
    e->taping = taping;
    dtri_free(w.nodes);
    dtr_scope_leave(e, NULL);
    return e->error.status;
}
