/* Prints a container of host records, one line each, for the tests to compare:
 *   A thread op address size file:line:column function variable      an access
 *   E thread event args…                                             an event
 *   S seq                                                            when the number in force changes
 * memtrace dump is for people and may change. */
#include <stdio.h>
#include <string.h>
#include "memtrace/host.h"

static const char *const ops[] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = text,
#include "memtrace/container.def"
};
static const char *const events[64] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = text,
#include "memtrace/container.def"
};

static void dump_access(struct mt_host_reader *r, uint64_t thread, const struct mt_host_record *a)
{
    const struct mt_host_site_info *s = mt_host_site(r, a->site);
    if (!s) {
        printf("A %llu ? 0x%llx %u no site %u\n", (unsigned long long)thread, (unsigned long long)a->address,
               a->size, a->site);
        return;
    }
    printf("A %llu %s 0x%llx %u %s:%u:%u %s %s\n", (unsigned long long)thread, ops[s->op],
           (unsigned long long)a->address, a->size ? a->size : s->size, s->file, s->line, s->column,
           *s->function ? s->function : "-", *s->variable ? s->variable : "-");
}

int main(int argc, char **argv)
{
    struct mt_error e = {0};
    struct mt_host_reader *r = argc > 1 ? mt_host_reader_open(argv[1], NULL, &e) : NULL;
    struct mt_host_item i;
    uint64_t seq = UINT64_MAX;
    int rc;
    if (!r) {
        fprintf(stderr, "dump: %s\n", e.message);
        return 2;
    }
    if (argc > 2 &&
        mt_host_reader_order(r, !strcmp(argv[2], "time") ? MT_HOST_BY_TIME : MT_HOST_BY_SEQ, &e)) {
        fprintf(stderr, "dump: %s\n", e.message);
        return 2;
    }
    while ((rc = mt_host_next(r, &i, &e)) > 0) {
        if (i.seq != seq)
            printf("S %llu\n", (unsigned long long)(seq = i.seq));
        for (size_t k = 0; i.kind == MT_HOST_ITEM_RECORDS && k < i.count; k++)
            dump_access(r, i.thread, &i.records[k]);
        if (i.kind == MT_HOST_ITEM_EVENT) {
            printf("E %llu %s", (unsigned long long)i.thread, events[i.event] ? events[i.event] : "?");
            for (unsigned k = 0; k < i.nargs; k++)
                printf(" %llu", (unsigned long long)i.args[k]);
            putchar('\n');
        }
    }
    if (rc < 0)
        fprintf(stderr, "dump: %s\n", e.message);
    mt_host_reader_close(r);
    return rc < 0 ? 3 : 0;
}
