/* sourcelines.txt: `IP FILE:LINE` for each instruction with an access in the trace, by ascending IP; ":0"
 * for an unknown location. MAT's scripts look up each IP in it. */
#include "output.h"
#include "state.h"
#include "format/host_text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define BLOCK 65536u

struct line {
    uint64_t ip;
    const struct mt_core_kept_site *site;
};

static char sourcelines[4096 + 32]; /* absolute, as the program may change folders */

/* Names the file beside the trace, or in the current folder if the trace is not a file of its own. */
void mt_sourcelines_start(void)
{
    const char *output = mt_g.o->output, *slash = strrchr(output, '/');
    size_t n = 0;
    if (*output != '/' || mt_core_sink_is_fifo()) {
        long got = mt_sys(__NR_readlink, (long)"/proc/self/cwd", (long)sourcelines, 4095, 0, 0, 0);
        n = got > 0 ? (size_t)got : 0;
        sourcelines[n++] = '/';
    }
    if (slash && !mt_core_sink_is_fifo() && n + (size_t)(slash + 1 - output) < 4096) {
        memcpy(sourcelines + n, output, (size_t)(slash + 1 - output));
        n += (size_t)(slash + 1 - output);
    }
    strcpy(sourcelines + n, "sourcelines.txt");
}

static int sourcelines_order(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return (x->ip > y->ip) - (x->ip < y->ip);
}

/* Collects all instructions that were written; `l` has room for four operands of each. */
static size_t sourcelines_collect(struct line *l)
{
    size_t n = 0;
    for (uint32_t i = 1; i < mt_site_instructions(); i++) {
        const struct mt_core_kept_site *s = mt_site_of(i << 2);
        if (!s || !s->shown)
            continue;
        if (s->ip)
            l[n++] = (struct line){s->ip, s};
        for (unsigned k = 0; !s->ip && k < s->operands; k++)
            l[n++] = (struct line){(i << 2) + k, s};
    }
    qsort(l, n, sizeof *l, sourcelines_order);
    return n;
}

static int sourcelines_put(struct mt_core_output *o, const struct line *l, size_t n, char *block)
{
    size_t used = 0;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (i && l[i].ip == l[i - 1].ip)
            continue;
        if (BLOCK - used < MT_TEXT_LINE) {
            rc = mt_core_output_write(o, block, used);
            used = 0;
        }
        used += mt_text_mat_location(block + used, BLOCK - used, l[i].ip, l[i].site->file, l[i].site->line);
    }
    return rc ? rc : mt_core_output_write(o, block, used);
}

void mt_sourcelines_write(void)
{
    char why[1200];
    struct mt_core_output o;
    size_t bytes = (size_t)mt_site_instructions() * 4 * sizeof(struct line);
    if (mt_core_output_open(&o, sourcelines, why, sizeof why)) {
        mt_plat_report("%s; the trace has no places", why);
        return;
    }
    struct line *l = mt_plat_map(bytes);
    char *block = mt_plat_map(BLOCK);
    int rc = l && block ? sourcelines_put(&o, l, sourcelines_collect(l), block) : ENOMEM;
    if (rc)
        mt_plat_report("%s: %s; places are missing", sourcelines, strerror(rc));
    mt_core_output_close(&o);
    mt_plat_unmap(block, BLOCK);
    mt_plat_unmap(l, bytes);
}
