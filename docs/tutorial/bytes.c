/* docs/reader.md: bytes that each launch loads and stores. */
#include <inttypes.h>
#include <memtrace/device.h>
#include <memtrace/record.h>
#include <memtrace/trace.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const struct mt_source_options options = {.flags = MT_SOURCE_RUNS | MT_SOURCE_NO_HOST};
    const char *const *paths = (const char *const *)argv + 1;
    struct mt_error err;
    struct mt_item item;
    uint64_t bytes[4] = {0};
    size_t problems;
    int rc, complete;
    struct mt_source *s = mt_source_open(paths, (size_t)(argc - 1), &options, &err);
    if (!s) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    while ((rc = mt_source_next(s, &item, &err)) > 0) {
        if (item.kind != MT_ITEM_RUNS)
            continue;
        for (size_t i = 0; i < item.count; i++) {
            const struct mt_access_run *r = &item.runs[i]; /* what a warp did at once */
            bytes[r->meta >> 28] += (uint64_t)r->count * (r->meta & MT_RAW_MAX_SIZE);
        }
        if (item.flags & MT_BATCH_END) {
            printf("%" PRIu64 " %s: %" PRIu64 " loaded, %" PRIu64 " stored\n", item.superstep, item.kernel,
                   bytes[MT_LOAD] + bytes[MT_ATOMIC], bytes[MT_STORE] + bytes[MT_ATOMIC]);
            for (int i = 0; i < 4; i++)
                bytes[i] = 0;
        }
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    mt_source_problems(s, &problems); /* damage: what was whole has been handed out */
    mt_source_notes(s, &(size_t){0}, &complete);
    mt_source_close(s);
    return rc < 0 ? 1 : problems || !complete ? 3 : 0;
}
