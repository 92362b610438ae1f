/* A feed and its rows, on a trace whose calls are written down by hand. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/base/pipeline.h"
#include "memtrace/record.h"

static char path[] = "/tmp/mt-feed-XXXXXX", meta[sizeof path + 5];

/* Three launches, each with loads of 4 bytes at 0x10, 0x14 and 0x18; a copy before the second. */
static void feed_write(void)
{
    static const char *const kernels[] = {"a\n", "b\n", "a\n"};
    FILE *f = fdopen(mkstemp(path), "wb");
    assert_non_null(f);
    fputc(MT_RAW_RECORD_SIZE, f);
    for (int i = 0; i < 3; i++) {
        fputs(kernels[i], f);
        for (uint64_t r = 0; r < 3; r++)
            fwrite((uint64_t[]){4, 0x10 + 4 * r, 0}, 24, 1, f);
        fwrite((uint64_t[]){0, 0, 0}, 24, 1, f); /* the end of the launch */
    }
    assert_int_equal(fclose(f), 0);
    snprintf(meta, sizeof meta, "%s.meta", path);
    f = fopen(meta, "wb");
    assert_non_null(f);
    for (int i = 0; i < 3; i++)
        fprintf(f, "{\"ev\":\"launch\",\"seq\":%d,\"kernel\":\"%c\",\"traced\":true,\"status\":0}\n",
                i * 2 + 1, kernels[i][0]);
    fputs("{\"ev\":\"memset\",\"seq\":2,\"dst\":\"0x10\",\"value\":0,\"bytes\":4}\n", f);
    assert_int_equal(fclose(f), 0);
}

struct heard {
    char text[200];
    int most, calls; /* launches that are enough; 0: all */
};

__attribute__((format(printf, 2, 3))) static int feed_say(struct heard *h, const char *format, ...)
{
    va_list args;
    size_t n = strlen(h->text);
    va_start(args, format);
    vsnprintf(h->text + n, sizeof h->text - n, format, args);
    va_end(args);
    return 0;
}

static int heard_launch(void *self, const struct mt_run_launch *l)
{
    struct heard *h = self;
    h->calls++;
    return feed_say(h, "%s%d(", l->kernel, l->selected);
}

static int heard_records(void *self, const struct mt_raw_record *records, size_t n)
{
    for (size_t i = 0; i < n; i++)
        feed_say(self, "%x", (unsigned)mt_rec_address(&records[i]));
    return 0;
}

static int heard_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        feed_say(self, "%ux%u%+d", runs[i].count, (unsigned)runs[i].base, (int)runs[i].stride);
    return 0;
}

static int heard_end(void *self)
{
    return feed_say(self, ")");
}

static int heard_copy(void *self, const struct mt_copy_event *c)
{
    return feed_say(self, "=%d", (int)c->seq);
}

static int heard_enough(void *self)
{
    const struct heard *h = self;
    return h->most && h->calls >= h->most;
}

static int heard_no_memory(void *self, const struct mt_run_launch *l)
{
    return heard_launch(self, l) || l->superstep == 1 ? -1 : 0;
}

static const struct mt_analysis all = {.needs = MT_NEEDS_ALL,
                                       .launch = heard_launch,
                                       .records = heard_records,
                                       .end = heard_end,
                                       .copy = heard_copy},
                                few = {.launch = heard_launch, .runs = heard_runs, .end = heard_end},
                                spaces = {.needs = MT_NEEDS_SPACES,
                                          .launch = heard_launch,
                                          .runs = heard_runs},
                                ending = {.launch = heard_launch, .enough = heard_enough},
                                failing = {.needs = MT_NEEDS_ALL, .launch = heard_no_memory};

static struct mt_source *feed_open(void)
{
    struct mt_error err;
    const char *paths[] = {path};
    struct mt_source *s = mt_source_open(paths, 1, NULL, &err);
    assert_non_null(s);
    return s;
}

static void feed_rows(void **state)
{
    (void)state;
    struct heard h[3] = {{.most = 0}};
    struct mt_filter filter;
    struct mt_feed f = {.source = feed_open(), .filter = &filter};
    mt_filter_init(&filter);
    assert_int_equal(mt_filter_kernels(&filter, "a"), 0);
    mt_feed_add(&f, &all, &h[0], NULL);
    mt_feed_add(&f, &few, &h[1], NULL);
    mt_feed_add(&f, &spaces, &h[2], NULL);
    assert_int_equal(mt_feed_read(&f), 0);
    assert_string_equal(h[0].text, "a1(101418)=2b0(101418)a1(101418)");
    assert_string_equal(h[1].text, "a1(3x16+4)a1(3x16+4)"); /* no b, and runs of what were records */
    assert_string_equal(h[2].text, "");                     /* a raw trace has no other memory */
    assert_true(f.launches == 3 && f.chosen == 2 && f.accesses == 9 && f.reported == 6);
    mt_source_close(f.source);
    mt_filter_free(&filter);
}

static void feed_ends(void **state)
{
    (void)state;
    struct heard h[2] = {{.most = 2}, {.most = 0}};
    struct mt_feed f = {.source = feed_open()};
    mt_feed_add(&f, &ending, &h[0], NULL);
    assert_int_equal(mt_feed_read(&f), 0);
    assert_string_equal(h[0].text, "a1(b1(");
    mt_source_close(f.source);
    struct mt_feed g = {.source = feed_open()};
    mt_feed_add(&g, &failing, &h[1], "what it was for");
    assert_int_equal(mt_feed_read(&g), MT_FEED_FAILED);
    assert_string_equal(g.why, "what it was for");
    assert_string_equal(h[1].text, "a1(b1(");
    mt_source_close(g.source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(feed_rows), cmocka_unit_test(feed_ends)};
    feed_write();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    unlink(meta);
    return failed;
}
