/* --list: which device code a file has, module by module and kernel by kernel, and what can be traced. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Core.h>
#include "mt-ptx.h"
#include "base/near.h"
#include "llvm-pass/unit/shim.h"
#include "format/image.h"

/* Modules with PTX are looked at first: what has machine code alone may be the linked code of their files. */
struct list {
    FILE *to;
    char **traced; /* names of kernels in PTX; malloc'ed */
    size_t n;
    unsigned lone; /* kernels of the machine code that is looked at */
};

/* Of kernels of mt-cc the version with record calls is a kernel, too, and nothing that people know. */
static void list_kernel(struct list *l, const char *name, const char *what)
{
    size_t n = strlen(name), end = strlen(MT_TRACED_SUFFIX);
    if (n > end && !strcmp(name + n - end, MT_TRACED_SUFFIX)) {
        return;
    }
    char *pretty = mt_shim_demangle(name, 1);
    fprintf(l->to, "    kernel %s: %s\n", pretty ? pretty : name, what);
    free(pretty);
}

/* compute_75, compute_90a … of the entries of one kind. */
static void list_architectures(struct list *l, const struct module *m, unsigned kind, const char *prefix)
{
    const char *comma = "";
    for (unsigned i = 0; i < m->n; i++) {
        const struct fatbin_entry *e = &m->entries[i];
        if (e->kind == kind && e->arch) {
            fprintf(l->to, "%s%s%u%s", comma, prefix, e->arch,
                    e->flags & FATBIN_ALONE    ? "a"
                    : e->flags & FATBIN_FAMILY ? "f"
                                               : "");
            comma = ", ";
        }
    }
}

/* What was said of a function that cannot run; malloc'ed. NULL: nothing. Messages: "FILE:LINE: NAME cannot
 * run: WHY". */
static char *list_said(const struct reading *r, const char *name)
{
    char wanted[128], *text = NULL;
    size_t size;
    snprintf(wanted, sizeof wanted, ": %.90s cannot run: ", name);
    const char *at = r->said ? strstr(r->said, wanted) : NULL;
    FILE *f = at ? open_memstream(&text, &size) : NULL;
    if (!f) {
        return NULL;
    }
    const char *place = at, *why = at + strlen(wanted);
    while (place > r->said && place[-1] != '\n') {
        place--;
    }
    fprintf(f, "cannot run: %.*s (%.*s)", (int)strcspn(why, "\n"), why, (int)(at - place), place);
    fclose(f);
    return text;
}

/* Is there !{f, "kernel", 1} among the module's annotations? */
static int list_is_kernel(LLVMModuleRef module, LLVMValueRef f)
{
    unsigned n = LLVMGetNamedMetadataNumOperands(module, "nvvm.annotations"), length;
    LLVMValueRef *all = calloc(n + 1, sizeof *all), parts[3];
    int found = 0;
    if (all) {
        LLVMGetNamedMetadataOperands(module, "nvvm.annotations", all);
    }
    for (unsigned i = 0; all && i < n && !found; i++) {
        if (LLVMGetMDNodeNumOperands(all[i]) != 3) {
            continue;
        }
        LLVMGetMDNodeOperands(all[i], parts);
        const char *what = LLVMGetMDString(parts[1], &length);
        found = parts[0] == f && what && length == 6 && memcmp(what, "kernel", 6) == 0;
    }
    free(all);
    return found;
}

static void list_remember(struct list *l, const char *name)
{
    char **more = realloc(l->traced, (l->n + 1) * sizeof *more);
    if (more) {
        l->traced = more;
        if ((more[l->n] = strdup(name))) {
            l->n++;
        }
    }
}

static void list_ptx(struct list *l, const struct reading *r)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(r->module); f; f = LLVMGetNextFunction(f)) {
        size_t n;
        const char *name = LLVMGetValueName2(f, &n);
        char *why = list_said(r, name);
        if (list_is_kernel(r->module, f)) {
            list_kernel(l, name, why ? why : "can be traced");
            list_remember(l, name);
        } else if (why) {
            fprintf(l->to, "    function %s: %s\n", name, why);
        }
        free(why);
    }
}

static void list_lone(void *ctx, const char *name)
{
    struct list *l = ctx;
    int found = 0;
    for (size_t i = 0; i < l->n && !found; i++) {
        found = strcmp(l->traced[i], name) == 0;
    }
    l->lone++;
    list_kernel(l, name, found ? "linked; its PTX is in another module" : "cannot run: machine code alone");
}

/* The kernels of machine code without PTX beside it; one architecture has them all. */
static int list_machine_code(struct list *l, const struct input *in, const struct module *m)
{
    l->lone = 0;
    for (unsigned i = 0; i < m->n; i++) {
        struct bytes cubin = {0};
        if (m->entries[i].kind != FATBIN_ELF) {
            continue;
        }
        int code = mt_ptxtool_fatbin_unpack(in->name, &m->entries[i], &cubin);
        if (code == 0 && (code = mt_ptxtool_cubin_kernels(&cubin, list_lone, l)) != 0) {
            fprintf(stderr, "memtrace: %s: its machine code is damaged\n", in->name);
        }
        mt_cudabin_bytes_free(&cubin);
        if (code != 0 || l->lone) {
            return code;
        }
    }
    return 0;
}

/* The line of the module; `e`: the PTX that is taken of it, or NULL. */
static void list_head(struct list *l, const struct module *m, const struct fatbin_entry *e)
{
    fprintf(l->to, "%u: ", m->number);
    if (!e) {
        fprintf(l->to, "no PTX");
    } else {
        fprintf(l->to, e->arch ? "PTX for compute_%u%s" : "PTX", e->arch,
                e->flags & FATBIN_ALONE    ? "a"
                : e->flags & FATBIN_FAMILY ? "f"
                                           : "");
    }
    if (mt_ptxtool_module_has(m, FATBIN_PTX) > 1) {
        fprintf(l->to, " (of ");
        list_architectures(l, m, FATBIN_PTX, "compute_");
        fprintf(l->to, ")");
    }
    if (mt_ptxtool_module_has(m, FATBIN_ELF)) {
        fprintf(l->to, ", machine code for ");
        list_architectures(l, m, FATBIN_ELF, "sm_");
    }
    if (mt_ptxtool_module_has(m, FATBIN_LTO)) {
        fprintf(l->to, ", code for link-time optimisation, which is not read");
    }
    fputc('\n', l->to);
}

static int list_module(struct list *l, LLVMContextRef context, const struct input *in, const struct module *m)
{
    struct reading r = {0};
    int code = mt_ptxtool_module_has(m, FATBIN_PTX)
                   ? mt_ptxtool_read_best(context, in->name, m, "PTX", &(struct wanted){0}, &r)
                   : 0;
    if (code != 0) {
        return code;
    }
    list_head(l, m, r.entry);
    if (r.module) {
        list_ptx(l, &r);
        LLVMDisposeModule(r.module);
    } else if (r.entry) {
        fprintf(l->to, "    cannot be read: %s", r.said);
    } else {
        code = list_machine_code(l, in, m);
    }
    mt_ptxtool_reading_free(&r);
    return code;
}

int mt_ptxtool_list(const struct input *in)
{
    int code = 0;
    struct list l = {0};
    LLVMContextRef context = LLVMContextCreate();
    char **texts = calloc(in->n + 1, sizeof *texts);
    for (unsigned i = 0; i < 2 * in->n && code == 0; i++) {
        const struct module *m = &in->modules[i % in->n];
        size_t size;
        if (!mt_ptxtool_module_has(m, FATBIN_PTX) != (i >= in->n)) {
            continue;
        }
        l.to = texts ? open_memstream(&texts[i % in->n], &size) : NULL;
        code = l.to ? list_module(&l, context, in, m) : 1;
        if (l.to) {
            fclose(l.to);
        }
    }
    for (unsigned i = 0; texts && i < in->n; i++) {
        mt_ptxtool_put(stdout, texts[i] ? texts[i] : "");
        free(texts[i]);
    }
    while (l.n) {
        free(l.traced[--l.n]);
    }
    free(l.traced);
    free(texts);
    LLVMContextDispose(context);
    return mt_near_told() ? 1 : code;
}
