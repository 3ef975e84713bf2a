/* The kernels: pure functions from the inputs' data to the outputs' data.  Each sees its shapes and
 * parameters in a struct dtri_task.  All sums run in a fixed order, so equal inputs give equal
 * bits. Any thread. */
#ifndef DTRI_ENGINE_KERNELS_H
#define DTRI_ENGINE_KERNELS_H

#include "engine/engine.h"

/* clang-format off */
#define DTRI_KERNELS(K)                                                                            \
    K(add) K(sub) K(mul) K(div) K(affine) K(exp) K(log) K(sqrt) K(relu) K(step) K(gelu)            \
    K(gelu_slope) K(fill) K(sum) K(broadcast) K(view) K(permute) K(split) K(concat) K(slice)       \
    K(pad) K(matmul) K(softmax) K(normalize) K(embedding) K(scatter_add) K(one_hot)                \
    K(cross_entropy) K(dropout_mask) K(sgd) K(adam)
/* clang-format on */

#define DTRI_KERNEL_DECLARE(name)                                                                  \
    dtr_status dtri_kernel_##name(const dtr_cpu_kernel *kernel, void *const *in, void *const *out, \
                                  dtr_error *error);
DTRI_KERNELS(DTRI_KERNEL_DECLARE)
#undef DTRI_KERNEL_DECLARE

#endif
