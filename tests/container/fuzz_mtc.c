/* libFuzzer target: any bytes as a container, in all orders, as a file and as a pipe; and any bytes as a host
 * chunk inside a good one, since checksums keep mutations from getting that far.
 *   cmake -DCMAKE_C_COMPILER=clang-19 … && ninja fuzz_mtc && fuzz_mtc -max_total_time=300 CORPUS
 * tests/golden/container/succeed */
#define _GNU_SOURCE
#include "container/writer.h"
#include "memtrace/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t sum; /* every byte handed out is looked at */

static void drain(const char *path, enum mt_host_order order)
{
    struct mt_error err;
    struct mt_host_item item;
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    if (!r)
        return;
    uint64_t records = 0;
    if (mt_host_reader_order(r, order, &err) == 0)
        for (int rc; (rc = mt_host_next(r, &item, &err)) != 0 && records < 1 << 22;) {
            if (rc < 0 && (err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED))
                break;
            for (size_t i = 0; rc > 0 && item.kind == MT_HOST_ITEM_RECORDS && i < item.count; i++)
                sum += item.records[i].address + item.records[i].time + item.records[i].site;
            for (unsigned i = 0; rc > 0 && item.kind == MT_HOST_ITEM_EVENT && i < item.nargs; i++)
                sum += item.args[i];
            records += rc > 0 ? item.count : 0;
        }
    const struct mt_host_site_info *s = mt_host_site(r, 4);
    sum += s ? strlen(s->file) + strlen(s->text) : 0;
    mt_host_reader_close(r);
}

static void as_file(const void *data, size_t n)
{
    char path[64];
    int fd = memfd_create("fuzz", 0), pipes[2];
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    drain(path, MT_HOST_BY_FILE);
    drain(path, MT_HOST_BY_SEQ);
    drain(path, MT_HOST_BY_TIME);
    close(fd);
    if (n > 60000 || pipe(pipes) != 0)
        return;
    if (write(pipes[1], data, n) == (ssize_t)n) {
        close(pipes[1]);
        snprintf(path, sizeof path, "/proc/self/fd/%d", pipes[0]);
        drain(path, MT_HOST_BY_FILE);
    }
    close(pipes[0]);
}

static unsigned char out[1 << 20];
static size_t length;
static int append(void *self, const void *data, size_t bytes)
{
    if (length + bytes > sizeof out)
        return 28;
    memcpy(out + length, data, bytes);
    length += bytes;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct mt_mtc_file file = {append, NULL};
    char why[100];
    as_file(data, n);
    if (n < 4)
        return 0;
    length = 0;
    struct mt_mtc_writer *w =
        mt_mtc_writer_open(&file, data[0] & 1 ? MT_MTC_HAS_HOST | MT_MTC_HAS_TIMES : MT_MTC_HAS_HOST,
                           data[0] & 2, why, sizeof why);
    size_t half = data[0] & 4 ? 2 + data[1] % (n - 2) : n;
    half = half < 2 ? 2 : half;
    if (data[0] & 8)
        mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, 1, data + 2, n - 2);
    mt_mtc_write(w, MT_MTC_HOST, 0, data[0] >> 6, 0, 0, data[1], data + 2, half - 2);
    mt_mtc_write(w, MT_MTC_HOST, 0, data[0] >> 5 & 1, 0, 0, data[1] * 64u, data + half, n - half);
    mt_mtc_writer_close(w);
    as_file(out, length);
    return 0;
}
