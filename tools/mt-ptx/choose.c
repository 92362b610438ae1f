/* Which PTX of several is taken, and what is read of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "llvm-pass/unit/options.h"
#include "runtime/api/device/made_image.h"
#include "mt-ptx.h"

enum { CPU_DEVICE = 90, MOST_TRIES = 4 };

struct told {
    FILE *to;
    const char *name;
    struct reading *reading;
};

static void choose_tell(void *ctx, unsigned line, const char *message)
{
    struct told *t = ctx;
    if (line) {
        fprintf(t->to, "%s:%u: %s\n", t->name, line, message);
    } else {
        fprintf(t->to, "%s: %s\n", t->name, message);
    }
}

/* The lower the better. Code for one architecture alone comes after code for it and all newer ones. */
static unsigned choose_rank(const struct fatbin_entry *e, unsigned device)
{
    unsigned apart = (e->flags & (FATBIN_ALONE | FATBIN_FAMILY)) != 0;
    return 2 * (e->arch <= device ? device - e->arch : 1000 + e->arch) + apart;
}

/* The best one after `last`; NULL: there is no more. */
static const struct fatbin_entry *choose_next(const struct module *m, const struct fatbin_entry *last,
                                              unsigned device)
{
    const struct fatbin_entry *found = NULL;
    for (unsigned i = 0; i < m->n; i++) {
        const struct fatbin_entry *e = &m->entries[i];
        unsigned rank = choose_rank(e, device), before = last ? choose_rank(last, device) : 0;
        int behind = !last || rank > before || (rank == before && e > last);
        if (e->kind == FATBIN_PTX && behind && (!found || rank < choose_rank(found, device))) {
            found = e;
        }
    }
    return found;
}

/* As the runtime gets it: behind the others. */
static int choose_add_kernel(struct bytes *all, const struct mt_made_kernel *head,
                             const struct mt_ptx_content *c)
{
    size_t n = strlen(c->kernel);
    unsigned char *more = realloc(all->data, all->size + head->bytes);
    if (!more)
        return -1;
    struct mt_made_kernel *k = (void *)(more + all->size);
    all->data = more;
    all->size += head->bytes;
    memset(k, 0, head->bytes);
    memcpy(k, head, sizeof *head);
    for (unsigned i = 0; i < c->nplaces; i++) {
        char *path = mt_ptx_place_file(&c->places[i]);
        k->places[i] = (struct mt_made_place){
            .file = path ? mt_made_file(path) : 0, .line = c->places[i].line, .lines = c->places[i].lines};
        free(path);
    }
    memcpy(k->places + k->nplaces, c->kernel, n);
    return 0;
}

/* Which of several PTX was taken, and lines that are named to the pass, are this version's alone. */
static int choose_content(void *ctx, const struct mt_ptx_content *c)
{
    struct told *t = ctx;
    struct mt_made_kernel k = {.nplaces = c->nplaces};
    k.bytes = (sizeof k + c->nplaces * sizeof *k.places + strlen(c->kernel) + 1 + 7) & ~(uint64_t)7;
    snprintf(k.ptx, sizeof k.ptx, "%s", t->reading->name);
    if (!t->reading->later && !mt_pass_options.noff) {
        XXH128_hash_t h = XXH3_128bits(c->text, c->length);
        snprintf(k.content, sizeof k.content, "%016llx%016llx", (unsigned long long)h.high64,
                 (unsigned long long)h.low64);
    }
    return choose_add_kernel(&t->reading->kernels, &k, c);
}

static int choose_read(LLVMContextRef context, const char *input, const char *name, const struct wanted *w,
                       struct reading *r)
{
    size_t size;
    int code = mt_ptxtool_fatbin_unpack(input, r->entry, &r->text);
    struct told told = {
        .to = code ? NULL : open_memstream(&r->said, &size), .name = name ? name : r->name, .reading = r};
    if (!told.to) {
        return code ? code : 1;
    }
    r->text.size = strnlen((const char *)r->text.data, r->text.size); /* NULs are at the end */
    snprintf(r->name, sizeof r->name, "MemTrace-%016llx.ptx",
             (unsigned long long)XXH3_64bits(r->text.data, r->text.size));
    struct mt_ptx_source source = {.name = told.name,
                                   .text = (const char *)r->text.data,
                                   .length = r->text.size,
                                   .tell = choose_tell,
                                   .content = choose_content,
                                   .ctx = &told,
                                   .part = w->part,
                                   .kernel = w->kernel,
                                   .limit = mt_ptxtool_limit};
    if (w->part == MT_PTX_BASE && r->text.size <= w->divide)
        r->result.undivided = "it is small";
    else
        r->module = mt_ptx_read(context, &source, &r->result);
    r->result.failed += r->module ? mt_ptxtool_check(r->module, told.to) : 0;
    return fclose(told.to) ? 1 : 0;
}

void mt_ptxtool_reading_free(struct reading *r)
{
    mt_cudabin_bytes_free(&r->text);
    free(r->said);
    mt_cudabin_bytes_free(&r->kernels);
    r->said = NULL;
}

static void choose_drop(struct reading *r)
{
    if (r->module) {
        LLVMDisposeModule(r->module);
    }
    mt_ptxtool_reading_free(r);
}

static int choose_is_better(const struct reading *a, const struct reading *b)
{
    return a->module && (!b->module || a->result.failed < b->result.failed);
}

int mt_ptxtool_read_best(LLVMContextRef context, const char *input, const struct module *m, const char *name,
                         const struct wanted *w, struct reading *out)
{
    const struct fatbin_entry *e = NULL;
    *out = (struct reading){0};
    for (int tries = 0; tries < MOST_TRIES && (e = choose_next(m, e, CPU_DEVICE)); tries++) {
        struct reading r = {.entry = e, .later = tries > 0};
        int code = choose_read(context, input, name, w, &r);
        if (code != 0) {
            choose_drop(&r);
            choose_drop(out);
            return code;
        }
        if (!out->entry || choose_is_better(&r, out)) {
            choose_drop(out);
            *out = r;
        } else {
            choose_drop(&r);
        }
        if ((out->module && !out->result.failed) || out->result.undivided) {
            break;
        }
    }
    return out->entry ? 0 : 1;
}
