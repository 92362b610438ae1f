/* What libmemtrace-reader makes of a container of kernels' accesses, in the words of gen_device, with "e" at
 * a launch's end and "! CODE OFFSET MESSAGE" for damage:
 *   read_device next|all|source|runs FILE   by mt_device_next, the same with all memory, as items of records,
 *                                           as items of runs
 * Records have 0 for warp, mask and site. */
#include "memtrace/host.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void access_line(uint32_t meta, uint64_t cta, uint32_t smid, uint32_t warp, uint32_t mask,
                        uint32_t site, uint64_t address)
{
    printf("a %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 "\n", meta,
           cta, smid, warp, mask, site, address);
}

static void show_runs(const struct mt_access_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < runs[i].count; k++)
            access_line(runs[i].meta, runs[i].cta, runs[i].smid, runs[i].warp, runs[i].mask, runs[i].site,
                        runs[i].addresses ? runs[i].addresses[k]
                                          : runs[i].base + k * (uint64_t)runs[i].stride);
}

static void read_device_problem(const struct mt_error *e)
{
    printf("! %d %" PRIu64 " %s\n", (int)e->code, e->offset, e->message);
}

static int by_next(const char *path, int all)
{
    struct mt_error err;
    struct mt_run_batch b;
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    int rc = 1;
    if (!r)
        read_device_problem(&err);
    else
        mt_host_reader_spaces(r, all);
    while (r && (rc = mt_device_next(r, &b, &err)) != 0) {
        if (rc < 0) {
            read_device_problem(&err);
            if (err.code == MT_E_SYSTEM || err.code == MT_E_INPUT)
                break;
            continue;
        }
        if (b.flags & MT_BATCH_BEGIN)
            printf("l %" PRIu64 " %" PRIu32 " %s\n", b.seq, b.stream, b.kernel);
        show_runs(b.runs, b.count);
        if (b.flags & MT_BATCH_END)
            puts("e");
    }
    mt_host_reader_close(r);
    return rc != 0;
}

static int by_source(const char *path, int runs)
{
    struct mt_source_options o = {.flags = runs ? MT_SOURCE_RUNS : 0};
    struct mt_error err;
    struct mt_item item;
    struct mt_source *s = mt_source_open(&path, 1, &o, &err);
    if (!s) {
        read_device_problem(&err);
        return 1;
    }
    while (mt_source_next(s, &item, &err) > 0) {
        if (item.flags & MT_BATCH_BEGIN)
            printf("l %" PRIu64 " %" PRIu64 " %s\n", item.launch ? item.launch->seq : 0,
                   item.launch ? item.launch->stream : 0, item.kernel);
        if (item.kind == MT_ITEM_RUNS)
            show_runs(item.runs, item.count);
        for (size_t i = 0; item.kind == MT_ITEM_BATCH && i < item.count; i++)
            access_line((uint32_t)item.records[i].w[0], item.records[i].w[2],
                        (uint32_t)(item.records[i].w[0] >> 32), 0, 0, 0, item.records[i].w[1]);
        if (item.flags & MT_BATCH_END)
            puts("e");
    }
    size_t n;
    const struct mt_error *p = mt_source_problems(s, &n);
    for (size_t i = 0; i < n; i++)
        read_device_problem(&p[i]);
    int complete;
    const char *const *notes = mt_source_notes(s, &n, &complete);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "%s\n", notes[i]);
    mt_source_close(s);
    return !complete;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "next") == 0 || strcmp(argv[1], "all") == 0)
        return by_next(argv[2], strcmp(argv[1], "all") == 0);
    return by_source(argv[2], strcmp(argv[1], "runs") == 0);
}
