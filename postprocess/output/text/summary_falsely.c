/* False sharing by kernel, in a sentence. */
#define _GNU_SOURCE
#include "summary.h"
#include "words.h"
#include "output/rows/sorted.h"
#include "numbers.h"
#include "table.h"
#include "memtrace/order.h"
#include <stdio.h>
#include <stdlib.h>

/* False sharing of one kernel (rank) in a buffer (index; those of no allocation last): accesses to such
 * lines, and all. */
struct falsely {
    uint64_t kernel, buffer, bad, all, most; /* most: of one buffer */
};
MT_ORDER_2(falsely_order, struct falsely, kernel, buffer)

static double falsely_share(const struct falsely *x)
{
    return x->all ? (double)x->bad / (double)x->all : 0;
}

/* Where it is most of a kernel's accesses first: in a long run the worst kernel may be a small one. */
static int falsely_by_share(const void *a, const void *b)
{
    const struct falsely *x = a, *y = b;
    if (falsely_share(x) != falsely_share(y))
        return falsely_share(x) > falsely_share(y) ? -1 : 1;
    if (x->bad != y->bad)
        return x->bad > y->bad ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

static void falsely_add(struct falsely *to, const struct falsely *x)
{
    to->bad += x->bad;
    to->all += x->all;
    if (x->bad > to->most) {
        to->most = x->bad;
        to->buffer = x->buffer;
    }
}

/* One for each kernel, its buffer that with most, in list[], which has room for one per cell; how many. */
static size_t falsely_gather(const struct mt_comm_result *r, const uint32_t *rank, struct falsely *list)
{
    const struct mt_sharing *x = &r->locality->sharing;
    const size_t nowhere = r->locality->nallocs;
    size_t out = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct mt_sharing_cell *c = &x->cells[i];
        list[i] = (struct falsely){.kernel = rank[c->superstep],
                                   .buffer = c->alloc < nowhere ? c->alloc : nowhere,
                                   .bad = c->accesses[MT_SHARED_FALSE]};
        for (int kind = 0; kind < MT_SHARING_KINDS; kind++)
            list[i].all += c->accesses[kind];
    }
    qsort(list, x->count, sizeof *list, falsely_order);
    for (size_t i = 0; i < x->count;) {
        struct falsely one = list[i];
        for (i++; i < x->count && falsely_order(&list[i], &one) == 0; i++) {
            one.bad += list[i].bad;
            one.all += list[i].all;
        }
        one.most = one.bad;
        if (out && list[out - 1].kernel == one.kernel)
            falsely_add(&list[out - 1], &one);
        else
            list[out++] = one;
    }
    return out;
}

enum { NAMED = 3 };

/* "50.0 % of the accesses of fill, most of them in #2 out; …" */
static void falsely_words(const struct mt_comm_result *r, const char *const *kernels,
                          const struct falsely *list, size_t n, char *out, size_t room)
{
    char label[MT_ALLOC_LABEL];
    size_t at = 0;
    for (size_t i = 0; i < n && i < NAMED && at < room; i++) {
        char *name = mt_kernel_short(kernels[list[i].kernel]);
        at += (size_t)snprintf(
            out + at, room - at, "%s%s of %s of %s, most of them in %s", i ? "; " : "",
            mt_number_percent(list[i].bad, list[i].all).text, i ? "those" : "the accesses", name ? name : "?",
            mt_alloc_label(label, r->locality,
                           list[i].buffer < r->locality->nallocs ? list[i].buffer : UINT64_MAX));
        free(name);
    }
    if (n > NAMED && at < room)
        snprintf(out + at, room - at, "; and some of %s",
                 mt_number_many(n - NAMED, "other kernel", "other kernels").text);
}

int mt_falsely_sentence(const struct mt_comm_result *r, const uint32_t *rank, const char *const *kernels,
                        char **sentence, int *look)
{
    const struct mt_sharing *x = &r->locality->sharing;
    struct falsely *list = calloc(x->count + 1, sizeof *list);
    size_t n = list ? falsely_gather(r, rank, list) : 0, named = 0;
    char words[NAMED * (MT_ALLOC_LABEL + 200)];
    int rc = list ? 0 : -1;
    *sentence = NULL;
    if (n)
        qsort(list, n, sizeof *list, falsely_by_share);
    while (named < n && list[named].bad && falsely_share(&list[named]) >= 0.01)
        named++;
    if (named) {
        falsely_words(r, kernels, list, named, words, sizeof words);
        *look = falsely_share(list) > 0.1;
        if (asprintf(sentence, mt_words("CTAs share cache lines of %s bytes falsely: %s."),
                     mt_number_count(1ull << x->options.line_bits).text, words) < 0) {
            *sentence = NULL;
            rc = -1;
        }
    }
    free(list);
    return rc;
}
