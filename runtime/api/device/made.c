/* Images of modules that came without one: the code of other compilers. */
#define _GNU_SOURCE
#include "made.h"
#include "base/report.h"
#include "lines.h"
#include "make.h"
#include "trace/events.h"
#include "trace/sources.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 16 /* of what mt-ptx has said; then how many more there are */

struct mt_made_code {
    struct mt_made made;
    char *name;
    char why[2048]; /* "": it was made */
};

const char *mt_made_name(const struct mt_module *m)
{
    Dl_info info;
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    const char *name = n && dladdr(fatbins[0], &info) && info.dli_fname ? info.dli_fname
                                                                        : "code loaded at run time",
               *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static void made_tell(const char *what, const struct mt_made *made)
{
    const char *at = made->words, *end = at + made->nwords;
    unsigned n = 0;
    for (; at < end; n++) {
        const char *lf = memchr(at, '\n', (size_t)(end - at)), *stop = lf ? lf : end;
        if (n < LINES)
            mt_report_once("%s: %.*s", what, (int)(stop - at), at);
        at = stop + 1;
    }
    if (n > LINES)
        mt_report("%s: %u more lines of this kind: mt-ptx says all of them", what, n - LINES);
}

static struct mt_making *made_begin(const struct mt_module *m, const char *name,
                                    const struct mt_made_kernel *kernel, char *why, size_t size)
{
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    struct mt_device_code *code = calloc(n ? n : 1, sizeof *code);
    for (size_t i = 0; code && i < n; i++)
        code[i] = (struct mt_device_code){fatbins[i], mt_device_code_bytes(fatbins[i])};
    const struct mt_to_make make = {code, n, name, kernel ? mt_made_kernel_name(kernel) : NULL,
                                    kernel ? kernel->content : NULL};
    struct mt_making *w = code && n ? mt_image_begin(&make, why, size) : NULL;
    free(code);
    return w;
}

struct mt_making *mt_made_begin(const struct mt_module *m, const char *name,
                                const struct mt_made_kernel *kernel)
{
    char why[64]; /* who asks for it in earnest will hear it */
    return made_begin(m, name, kernel, why, sizeof why);
}

struct mt_made_code *mt_made_ask(const struct mt_module *m, const char *name,
                                 const struct mt_made_kernel *kernel, struct mt_making *begun)
{
    struct mt_made_code *c = calloc(1, sizeof *c);
    if (begun && (!c || !mt_image_begun_here(begun))) {
        mt_image_drop(begun);
        begun = NULL;
    }
    if (!c)
        return NULL;
    strcpy(c->why, "no memory");
    c->name = strdup(name);
    if (!begun)
        begun = made_begin(m, name, kernel, c->why, sizeof c->why);
    if (begun && mt_image_end(begun, name, &c->made, c->why, sizeof c->why) == 0)
        *c->why = 0;
    for (const struct mt_made_text *t = NULL; !*c->why && mt_tracing() && (t = mt_made_next(&c->made, t));)
        if (*t->name)
            mt_source_keep(t->name, t + 1, t->bytes);
    return c;
}

static const struct mt_made_text *made_kernels(const struct mt_made_code *c)
{
    const struct mt_made_text *t = NULL;
    while (!*c->why && (t = mt_made_next(&c->made, t)) && *t->name)
        ;
    return *c->why ? NULL : t;
}

void *mt_made_kernels(const struct mt_made_code *c, size_t *bytes)
{
    const struct mt_made_text *t = c ? made_kernels(c) : NULL;
    void *copy = t && t->bytes ? malloc(t->bytes) : NULL;
    if (!copy)
        return NULL;
    *bytes = t->bytes;
    return memcpy(copy, t + 1, t->bytes);
}

/* Another version of the program had it made. */
static void made_move(const struct mt_made_code *c, struct mt_image *image, const struct mt_made_kernel *now)
{
    const struct mt_made_text *t = made_kernels(c);
    const struct mt_made_kernel *then = t ? mt_made_kernel_next(t + 1, t->bytes, NULL) : NULL;
    if (then && mt_lines_move(image, then, now))
        mt_report("%s: no memory: lines of accesses are those of an older version", c->name);
}

struct mt_image *mt_made_load(struct mt_made_code *c, struct mt_image *base,
                              const struct mt_made_kernel *kernel, const char **why)
{
    const char *bad = NULL;
    struct mt_image *image = c && !*c->why ? mt_image_load_all(&c->made.fatbin, 1, base, &bad) : NULL;
    if (image && kernel)
        made_move(c, image, kernel);
    if (c && !*c->why)
        made_tell(c->name ? c->name : "device code", &c->made);
    *why = image ? NULL : strdup(bad ? bad : c ? c->why : "no memory");
    return image;
}

void mt_made_free(struct mt_made_code *c)
{
    if (c) {
        free(c->made.block);
        free(c->name);
    }
    free(c);
}
