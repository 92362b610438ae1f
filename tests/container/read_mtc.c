/* What libmemtrace-reader makes of a container, as lines:
 *   read_mtc file|seq|time FILE
 *   r THREAD SEQ SITE ADDRESS SIZE TIME / e THREAD SEQ KIND TIME ARGUMENT... / ! CODE OFFSET MESSAGE
 * Items of several records end with "-" when the order is by time. */
#include "memtrace/host.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void read_mtc_show(const struct mt_host_item *item)
{
    for (size_t i = 0; item->kind == MT_HOST_ITEM_RECORDS && i < item->count; i++) {
        const struct mt_host_record *r = &item->records[i];
        printf("r %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu64 "\n", item->thread,
               item->seq, r->site, r->address, r->size, r->time);
    }
    if (item->kind == MT_HOST_ITEM_RECORDS)
        return;
    printf("e %" PRIu64 " %" PRIu64 " %d %" PRIu64, item->thread, item->seq, (int)item->event, item->time);
    for (unsigned i = 0; i < item->nargs; i++)
        printf(" %" PRIu64, item->args[i]);
    puts("");
}

int main(int argc, char **argv)
{
    struct mt_error err;
    struct mt_host_item item;
    int rc;
    if (argc != 3)
        return 2;
    struct mt_host_reader *r = mt_host_reader_open(argv[2], NULL, &err);
    enum mt_host_order order = strcmp(argv[1], "seq") == 0    ? MT_HOST_BY_SEQ
                               : strcmp(argv[1], "time") == 0 ? MT_HOST_BY_TIME
                                                              : MT_HOST_BY_FILE;
    if (!r || mt_host_reader_order(r, order, &err) != 0) {
        printf("! %d %" PRIu64 " %s\n", (int)err.code, err.offset, err.message);
        mt_host_reader_close(r);
        return 1;
    }
    while ((rc = mt_host_next(r, &item, &err)) != 0) {
        if (rc > 0)
            read_mtc_show(&item);
        else
            printf("! %d %" PRIu64 " %s\n", (int)err.code, err.offset, err.message);
        if (rc < 0 && (err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED))
            break;
        if (rc > 0 && order == MT_HOST_BY_TIME)
            puts("-");
    }
    mt_host_reader_close(r);
    return 0;
}
