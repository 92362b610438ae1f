/* Launches that are not traced run kernels without record calls:
 * each kernel that can reach one gets a second version. */
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
