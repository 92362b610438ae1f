/* gen_host FILE [LEVEL [timed]] < script: writes a container of host accesses for tests. Lines of the script:
 *   M JSON              a meta line
 *   T THREAD SEQ        a new chunk of this thread begins; SEQ is in force
 *   S SEQ               event: from here on this number is
 *   A SITE ADDRESS SIZE an access; SIZE 0: what the site says
 *   C TIME              what follows has this time (timed)
 *   E KIND ARG…         any other event */
#include "format/container/writer.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct mt_mtc_writer *writer;
static struct mt_mtc_encoder *encoder;
static struct mt_host_timed_entry *entries;
static struct mt_host_entry *plain; /* the same without times */
static size_t count, room;
static uint64_t thread, seq, now;
static int timed;
static char *meta;
static size_t meta_bytes, meta_lines;

static int write_all(void *self, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = write(*(int *)self, p, bytes);
        if (n < 0)
            return errno;
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static void gen_host_check(int bad, const char *what)
{
    if (bad) {
        fprintf(stderr, "gen_host: %s\n", what);
        exit(1);
    }
}

static void flush_entries(void)
{
    if (count == 0)
        return;
    const void *payload;
    uint64_t items, first = seq;
    for (size_t i = 0; i < count; i++)
        plain[i] = (struct mt_host_entry){entries[i].address, entries[i].site, entries[i].size};
    size_t bytes = timed ? mt_mtc_encode_timed(encoder, entries, count, &items, &seq, &payload)
                         : mt_mtc_encode(encoder, plain, count, &items, &seq, &payload);
    gen_host_check(bytes == 0, "no memory");
    gen_host_check(mt_mtc_write(writer, MT_MTC_HOST, 0, thread, first, seq, items, payload, bytes) != 0,
                   "cannot write");
    count = 0;
}

static void flush_meta(void)
{
    if (meta_lines)
        gen_host_check(mt_mtc_write(writer, MT_MTC_META, 0, 0, 0, 0, meta_lines, meta, meta_bytes) != 0,
                       "cannot write");
    meta_bytes = meta_lines = 0;
}

static void gen_host_add(uint64_t address, uint32_t site, uint32_t size)
{
    if (count == room) {
        room = room ? room * 2 : 1024;
        entries = realloc(entries, room * sizeof *entries);
        plain = realloc(plain, room * sizeof *plain);
        gen_host_check(!entries || !plain, "no memory");
    }
    entries[count++] = (struct mt_host_timed_entry){address, now, site, size};
}

static void gen_host_event(char *text)
{
    uint32_t kind = (uint32_t)strtoul(text, &text, 10);
    int args = 0;
    while (*text == ' ') {
        gen_host_add(strtoull(text, &text, 10), 0, args ? 0 : kind);
        args++;
    }
    if (args == 0)
        gen_host_add(0, 0, kind);
}

static void gen_host_line(char *text)
{
    uint64_t a, b, c;
    size_t n = strlen(text + 2);
    switch (text[0]) {
    case 'M':
        flush_entries();
        meta = realloc(meta, meta_bytes + n + 1);
        gen_host_check(!meta, "no memory");
        memcpy(meta + meta_bytes, text + 2, n);
        meta[meta_bytes + n] = '\n';
        meta_bytes += n + 1;
        meta_lines++;
        break;
    case 'T':
        gen_host_check(sscanf(text, "T %" SCNu64 " %" SCNu64, &a, &b) != 2, text);
        flush_entries();
        flush_meta();
        thread = a;
        seq = b;
        break;
    case 'S':
        gen_host_add(strtoull(text + 2, NULL, 10), 0, MT_HOST_EV_SEQ);
        break;
    case 'A':
        gen_host_check(sscanf(text, "A %" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c) != 3, text);
        if (count >= 1 << 16) /* what a chunk may hold is bounded */
            flush_entries();
        gen_host_add(b, (uint32_t)a, (uint32_t)c);
        break;
    case 'C':
        now = strtoull(text + 2, NULL, 10);
        break;
    case 'E':
        gen_host_event(text + 2);
        break;
    default:
        gen_host_check(1, text);
    }
}

int main(int argc, char **argv)
{
    char why[200], *text = NULL;
    size_t size = 0;
    ssize_t n;
    gen_host_check(argc < 2, "usage: gen_host FILE [LEVEL] < script");
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666);
    gen_host_check(fd < 0, argv[1]);
    struct mt_mtc_file file = {write_all, &fd};
    timed = argc > 3 && strcmp(argv[3], "timed") == 0;
    writer = mt_mtc_writer_open(&file, MT_MTC_HAS_HOST | (timed ? MT_MTC_HAS_TIMES : 0),
                                argc > 2 ? atoi(argv[2]) : 1, why, sizeof why);
    gen_host_check(!writer, why);
    encoder = mt_mtc_encoder_new();
    gen_host_check(!encoder, "no memory");
    while ((n = getline(&text, &size, stdin)) > 0) {
        if (text[n - 1] == '\n')
            text[n - 1] = 0;
        gen_host_line(text);
    }
    flush_entries();
    flush_meta();
    mt_mtc_encoder_free(encoder);
    gen_host_check(mt_mtc_writer_close(writer) != 0, "cannot write");
    free(entries);
    free(plain);
    free(meta);
    free(text);
    return close(fd) != 0;
}
