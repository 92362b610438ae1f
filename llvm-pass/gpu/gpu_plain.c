/* The kernels that a GPU runs when a launch is not traced: as they were before instrumentation, but for the
 * hidden parameter, so that both take the same arguments. */
#include "trace/plain.h"
#include "../../runtime/cpu/abi.h"
#include <stdlib.h>
#include <string.h>

void mt_unit_plan_plain(struct mt_unit *u)
{
    struct mt_plain p;
    if (!u->options->gpu_plain)
        return;
    mt_plain_find(&p, u->module);
    for (unsigned i = 0; i < u->nkernels; i++)
        u->kernels[i].has_plain = mt_plain_has(&p, u->kernels[i].function);
    mt_plain_free(&p);
}

/* Launch bounds and the like stand beside the module's functions. */
static void copy_annotations(struct mt_unit *u, LLVMValueRef from, LLVMValueRef to)
{
    static const char name[] = "nvvm.annotations";
    unsigned n = LLVMGetNamedMetadataNumOperands(u->module, name);
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes), op[32];
    if (nodes)
        LLVMGetNamedMetadataOperands(u->module, name, nodes);
    for (unsigned i = 0; nodes && i < n; i++) {
        unsigned count = LLVMGetMDNodeNumOperands(nodes[i]);
        if (count < 3 || count > 32)
            continue;
        LLVMGetMDNodeOperands(nodes[i], op);
        if (op[0] != from)
            continue;
        op[0] = to;
        LLVMAddNamedMetadataOperand(u->module, name, LLVMMDNodeInContext(u->context, op, count));
    }
    free(nodes);
}

/* Copies of functions that no kernel came to call. */
static void drop_unused(const struct mt_unit *u, const struct mt_plain *p)
{
    for (int again = 1; again;) {
        again = 0;
        for (unsigned i = 0; i < p->count; i++) {
            int is_kernel = 0;
            for (unsigned k = 0; k < u->nkernels; k++)
                is_kernel |= p->copy[i] && u->kernels[k].plain == p->copy[i];
            if (p->copy[i] && !is_kernel && !LLVMGetFirstUse(p->copy[i])) {
                LLVMDeleteFunction(p->copy[i]);
                p->copy[i] = NULL;
                again = 1;
            }
        }
    }
}

void mt_unit_make_plain(struct mt_unit *u)
{
    struct mt_plain p;
    int wanted = 0;
    for (unsigned i = 0; i < u->nkernels; i++)
        wanted |= u->kernels[i].has_plain;
    if (!wanted)
        return;
    mt_plain_find(&p, u->module);
    mt_plain_make(&p, MT_PLAIN_SUFFIX);
    for (unsigned i = 0; p.copy && i < u->nkernels; i++) {
        struct mt_kernel *k = &u->kernels[i];
        if (!k->has_plain || !(k->plain = mt_plain_copy(&p, k->function)))
            continue;
        LLVMSetLinkage(k->plain, LLVMGetLinkage(k->function));
        mt_shim_set_dso_local(k->plain, 0);
        LLVMSetVisibility(k->plain, LLVMGetVisibility(k->function));
        copy_annotations(u, k->function, k->plain);
    }
    if (p.copy)
        drop_unused(u, &p);
    mt_plain_free(&p);
}
