/* Kernels of the GPU's code under the program's own names: unchanged by instrumentation, with the
 * program's parameters, so that any launch of them passes the right ones. Kernels with record calls and
 * the hidden parameter have another name, which only the runtime knows. */
#include "gpu.h"
#include "trace/plain.h"
#include "format/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN_SUFFIX                                                                                         \
    "__memtrace_plain" /* suffix of functions on the way, and of kernels until they get their name */

/* Finds functions that reach record calls, and kernels that do so by a pointer or in another file. */
static void plain_find_all(struct mt_unit *u, struct mt_plain *p)
{
    mt_plain_find(p, u->module);
    for (unsigned i = 0; i < u->nkernels; i++)
        if (u->kernels[i].word == MT_WORD_STORED)
            mt_plain_add(p, u->kernels[i].function);
}

void mt_unit_plan_plain(struct mt_unit *u)
{
    struct mt_plain p;
    plain_find_all(u, &p);
    for (unsigned i = 0; i < u->nkernels; i++) {
        struct mt_kernel *k = &u->kernels[i];
        int reaches = mt_plain_has(&p, k->function) || k->word == MT_WORD_STORED;
        k->has_plain = (u->options->gpu_plain || k->gpu_untraced) && mt_plain_has(&p, k->function);
        k->gpu_records = reaches && k->traced && !k->gpu_untraced;
    }
    mt_plain_free(&p);
}

/* Copies launch bounds and the like, which are stored beside the module's functions. */
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

/* Drops copies of functions that no kernel calls. */
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
    plain_find_all(u, &p);
    mt_plain_make(&p, PLAIN_SUFFIX);
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

/* Finishes a kernel under the program's name with its parameters. */
static LLVMValueRef plain_finish(const struct mt_kernel *k, LLVMValueRef function)
{
    LLVMValueRef f = mt_shim_new_kernel(function, 1);
    LLVMSetValueName2(f, k->name, strlen(k->name));
    return f;
}

void mt_unit_name_kernel(struct mt_kernel *k)
{
    char name[4200];
    LLVMValueRef plain = k->plain;
    if (k->gpu_records) {
        snprintf(name, sizeof name, "%s%s", k->name, MT_TRACED_SUFFIX);
        k->function = mt_shim_new_kernel(k->function, 0);
        LLVMSetValueName2(k->function, name, strlen(name));
        k->plain = plain ? plain_finish(k, plain) : NULL;
        return;
    }
    if (plain) { /* the other one is never launched */
        mt_shim_replace_kernel(k->function, plain);
        k->function = plain;
    }
    k->plain = NULL;
    k->function = plain_finish(k, k->function);
}
