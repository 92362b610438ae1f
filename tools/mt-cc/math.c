/* How exactly device code computes: -use_fast_math and its like, as nvcc means them. NaN and infinity keep
 * their meaning: clang's -ffast-math is another thing. The back end's options for division and square root
 * are for LLVM as a whole, which has no other use for them; the pass reads them there for the CPU device. */
#include <string.h>
#include "mt-cc.h"

void mt_cc_math_option(struct request *r, const char *name, int on)
{
    struct device_math *m = &r->math;
    if (strcmp(name, "fast") == 0) {
        m->fast = 1;
    } else if (strcmp(name, "ftz") == 0) {
        m->ftz = on ? MATH_ON : MATH_OFF;
    } else if (strcmp(name, "prec-div") == 0) {
        m->prec_div = on ? MATH_ON : MATH_OFF;
    } else if (strcmp(name, "prec-sqrt") == 0) {
        m->prec_sqrt = on ? MATH_ON : MATH_OFF;
    } else {
        m->fmad = on ? MATH_ON : MATH_OFF;
    }
}

static int math_is_on(enum switched given, int otherwise)
{
    return given == MATH_UNSAID ? otherwise : given == MATH_ON;
}

static void math_add_device(struct words *line, const char *word)
{
    mt_words_add(line, "-Xarch_device");
    mt_words_add(line, word);
}

void mt_cc_math_words(const struct device_math *m, struct words *line)
{
    if (m->fast) {
        math_add_device(line, "-fgpu-approx-transcendentals");
    }
    if (math_is_on(m->ftz, m->fast)) {
        math_add_device(line, "-fgpu-flush-denormals-to-zero");
    }
    if (m->fmad != MATH_UNSAID) {
        math_add_device(line, m->fmad == MATH_ON ? "-ffp-contract=fast" : "-ffp-contract=off");
    }
    if (!math_is_on(m->prec_div, !m->fast)) {
        mt_words_add(line, "-mllvm");
        mt_words_add(line, m->fast ? "-nvptx-prec-divf32=0" : "-nvptx-prec-divf32=1");
    }
    if (!math_is_on(m->prec_sqrt, !m->fast)) {
        mt_words_add(line, "-mllvm");
        mt_words_add(line, "-nvptx-prec-sqrtf32=0");
        mt_words_add(line, "-DMT_CUDA_APPROX_SQRT");
    }
}
