/* Images of modules that came without one: the code of other compilers. */
#define _GNU_SOURCE
#include "made.h"
#include "base/report.h"
#include "make.h"
#include "trace/events.h"
#include "trace/sources.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 16 /* of what mt-ptx has said; then how many more there are */

/* The program or library that the code is in. */
static const char *made_name(const void *fatbin)
{
    Dl_info info;
    const char *name = dladdr(fatbin, &info) && info.dli_fname ? info.dli_fname : "code loaded at run time",
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
            mt_report("%s: %.*s", what, (int)(stop - at), at);
        at = stop + 1;
    }
    if (n > LINES)
        mt_report("%s: %u more lines of this kind: mt-ptx says all of them", what, n - LINES);
}

struct mt_image *mt_made_image(const struct mt_module *m, const char **why)
{
    char text[2048] = "no memory";
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    struct mt_device_code *code = calloc(n ? n : 1, sizeof *code);
    struct mt_made made = {0};
    struct mt_image *image = NULL;
    for (size_t i = 0; code && i < n; i++)
        code[i] = (struct mt_device_code){fatbins[i], mt_device_code_bytes(fatbins[i])};
    if (code && n && mt_image_make(code, n, made_name(fatbins[0]), &made, text, sizeof text) == 0) {
        const char *bad = NULL;
        image = mt_image_load_all(&made.fatbin, 1, &bad);
        for (const struct mt_made_text *t = NULL; mt_tracing() && (t = mt_made_next(&made, t));)
            mt_source_keep(t->name, t + 1, t->bytes);
        snprintf(text, sizeof text, "%s", bad ? bad : "");
        made_tell(made_name(fatbins[0]), &made);
    }
    *why = image ? NULL : strdup(text);
    free(made.block);
    free(code);
    return image;
}
