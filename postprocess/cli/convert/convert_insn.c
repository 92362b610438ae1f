/* Instruction logs: executions are grouped by instruction through an unnamed file, in which each instruction
 * has a place as large as a first pass found it to need. Memory: the instructions, not the executions. */
#define _GNU_SOURCE
#include "convert.h"
#include "memtrace/grow.h"
#include "analysis/base/pairmap.h"
#include "reader/base/internal.h" /* mt_spool_create */
#include "format/host_text.h"
#include "memtrace/order.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct instruction {
    uint32_t site;
    uint64_t ip, count, filled, start; /* records; start: in the file */
};

struct log {
    struct mt_host_reader *r;
    struct mt_pairmap places; /* instruction -> position in `list` */
    struct instruction *list;
    size_t n, room;
    struct mt_host_record *file;
    uint64_t records;
};

static int convert_insn_failed(const char *what)
{
    return mt_cli_fail("%s: %s", what, strerror(errno));
}

static const struct mt_host_site_info *any_site(struct mt_host_reader *r, uint32_t instruction)
{
    const struct mt_host_site_info *s = NULL;
    for (uint32_t i = 0; i < 4 && !s; i++)
        s = mt_host_site(r, instruction * 4 + i);
    return s;
}

/* NULL: no memory. */
static struct instruction *convert_insn_find(struct log *l, uint32_t site)
{
    uint64_t *at = mt_pairmap_get(&l->places, site / 4, 0, UINT64_MAX);
    if (!at)
        return NULL;
    if (*at == UINT64_MAX) {
        if (mt_grow(&l->list, &l->room, l->n + 1, sizeof *l->list) != 0)
            return NULL;
        const struct mt_host_site_info *s = any_site(l->r, site / 4);
        l->list[l->n] = (struct instruction){.site = site / 4, .ip = s ? s->ip : 0};
        *at = l->n++;
    }
    return &l->list[*at];
}

/* The first pass says what is damaged and counts. 0; -1 with *code. */
static int count_all(struct log *l, int *code)
{
    struct mt_host_item item;
    int rc;
    while ((rc = mt_convert_next(l->r, &item, code)) > 0)
        for (size_t i = 0; item.kind == MT_HOST_ITEM_RECORDS && i < item.count; i++) {
            struct instruction *x = convert_insn_find(l, item.records[i].site);
            if (!x) {
                errno = ENOMEM;
                *code = convert_insn_failed("instructions");
                return -1;
            }
            x->count++;
            l->records++;
        }
    return rc;
}

/* The second pass puts every record into its instruction's place. 0 or an exit code. */
static int convert_insn_fill(struct log *l)
{
    struct mt_host_item item;
    struct mt_error err;
    int rc = mt_host_rewind(l->r, &err) != 0 ? -1 : 1;
    while (rc > 0 ||
           (rc < 0 && err.code != MT_E_SYSTEM && err.code != MT_E_STOPPED && err.code != MT_E_INPUT)) {
        rc = mt_host_next(l->r, &item, &err);
        for (size_t i = 0; rc > 0 && item.kind == MT_HOST_ITEM_RECORDS && i < item.count; i++) {
            struct instruction *x = convert_insn_find(l, item.records[i].site);
            if (x && x->filled < x->count)
                l->file[x->start + x->filled++] = item.records[i];
        }
    }
    if (rc == 0)
        return 0;
    return mt_cli_failed(&err);
}

static int make_file(struct log *l)
{
    struct mt_error err;
    uint64_t bytes = l->records * sizeof *l->file, at = 0;
    for (size_t i = 0; i < l->n; i++) {
        l->list[i].start = at;
        at += l->list[i].count;
    }
    int fd = mt_spool_create(&err);
    if (fd < 0)
        return mt_cli_fail("%s", err.message);
    /* Allocated now: a full disk is an error here, not a fault later. */
    errno = posix_fallocate(fd, 0, (off_t)bytes);
    void *p = errno ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int code = p == MAP_FAILED ? convert_insn_failed("the temporary file (its folder is $TMPDIR)") : 0;
    close(fd);
    l->file = code ? NULL : p;
    return code;
}

MT_ORDER_2(by_address, struct instruction, ip, site)

static int show_head(struct log *l, const struct instruction *x, FILE *f)
{
    const struct mt_host_site_info *s = any_site(l->r, x->site);
    const char *text = s && *s->text ? s->text : "?", *reads = s ? s->reads : "",
               *writes = s ? s->writes : "";
    size_t room = MT_TEXT_LINE + strlen(text) + strlen(reads) + strlen(writes);
    char *line = malloc(room);
    if (!line)
        return -1;
    fwrite(line, 1, mt_text_insn_head(line, room, x->ip, text, reads, writes), f);
    free(line);
    return 0;
}

static void show_execution(struct log *l, const struct mt_host_record *a, size_t n, FILE *f)
{
    char line[MT_TEXT_LINE];
    fwrite(line, 1, mt_text_insn_begin(line, sizeof line, a->time), f);
    for (size_t i = 0; i < n; i++) {
        const struct mt_host_site_info *s = mt_host_site(l->r, a[i].site);
        if (s)
            fwrite(line, 1, mt_text_insn_operand(line, sizeof line, s->op, a[i].address, a[i].size), f);
    }
    fwrite(line, 1, mt_text_insn_end(line, sizeof line), f);
}

static int convert_insn_show(struct log *l, FILE *f)
{
    qsort(l->list, l->n, sizeof *l->list, by_address);
    for (size_t i = 0; i < l->n && !ferror(f); i++) {
        const struct instruction *x = &l->list[i];
        const struct mt_host_record *a = l->file + x->start;
        if (show_head(l, x, f) != 0)
            return convert_insn_failed("a line");
        for (uint64_t k = 0, n; k < x->filled; k += n) {
            for (n = 1; k + n < x->filled && a[k + n].time == a[k].time;)
                n++;
            show_execution(l, a + k, n, f);
        }
    }
    return 0;
}

int mt_convert_insn(struct mt_host_reader *r, FILE *f)
{
    struct log l = {.r = r};
    int code = 0, bad = 0;
    if (count_all(&l, &code) == 0 && l.records) {
        bad = make_file(&l);
        if (!bad)
            bad = convert_insn_fill(&l);
        if (!bad)
            bad = convert_insn_show(&l, f);
    }
    if (l.file)
        munmap(l.file, l.records * sizeof *l.file);
    mt_pairmap_free(&l.places);
    free(l.list);
    return bad ? bad : code;
}
