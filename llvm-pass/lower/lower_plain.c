/* Makes a second version of each kernel that can reach a record call, without these, for launches that are
 * not traced. */
#include "lower.h"
#include "trace/plain.h"

void mt_lower_plain(struct mt_lowering *l)
{
    struct mt_plain p;
    mt_plain_find(&p, l->module);
    mt_plain_make(&p, MT_PLAIN_SUFFIX);
    for (unsigned k = 0; k < l->u->nkernels; k++)
        l->plain.kernels[k] = mt_plain_copy(&p, l->traced.kernels[k]);
    mt_plain_free(&p);
}
