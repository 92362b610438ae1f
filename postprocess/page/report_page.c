/* The page: its text (postprocess/page/web/, embedded by report_files.S) with the data in its midst. */
#define _GNU_SOURCE
#include "report.h"
#include "page_list.h"
#include "report_files.h"
#include "output/versus/versus.h"
#include "output/results/summary.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_words(struct mt_json *j, const struct mt_report *r)
{
    const struct mt_companion *c = r->companion;
    mt_json_text(j, "format", "memtrace-report");
    mt_json_u64(j, "version", 1);
    mt_json_text(j, "tool", MEMTRACE_VERSION);
    mt_json_text(j, "title", r->title);
    mt_json_array(j, "inputs", 1);
    for (size_t i = 0; i < r->ninputs; i++)
        mt_json_text(j, NULL, r->inputs[i]);
    mt_json_end(j);
    mt_json_bool(j, "from_json", r->from_json);
    mt_json_known(j, "complete", r->complete);
    mt_json_array(j, "notes", 0);
    for (size_t i = 0; i < r->nnotes; i++)
        mt_json_text(j, NULL, r->notes[i]);
    mt_json_end(j);
    mt_gaps_write(j, &r->gaps);
    mt_json_object(j, "options", 1);
    mt_json_text(j, "same-cta", r->local ? "local" : "instance");
    mt_json_bool(j, "strict", r->strict);
    mt_json_bool(j, "host", r->host);
    mt_json_text(j, "kernels", r->kernels_text);
    mt_json_text(j, "supersteps", r->supersteps_text);
    mt_json_end(j);
    mt_json_text(j, "program", c ? c->program : NULL);
    mt_json_text(j, "device", c ? c->device : NULL);
    mt_json_text(j, "device_name", c ? c->device_name : NULL);
    mt_json_u64(j, "device_sms", c ? c->sms : 0);
    mt_json_u64(j, "companions", r->companions);
    mt_json_bool(j, "threads", r->threads);
}

/* Words that C has, too. */
static void report_page_words(struct mt_json *j)
{
    mt_json_object(j, "words", 0);
    mt_json_text(j, "halves", mt_table_halves);
    mt_json_array(j, "senders", 0);
    for (int i = 0; i < MT_SENDER_KINDS; i++) {
        mt_json_array(j, NULL, 1);
        mt_json_text(j, NULL, mt_sender_words[i][mt_of_threads]);
        mt_json_text(j, NULL, mt_figure_words[MT_FIGURE_SAME_LAUNCH + i].head[mt_of_threads]);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
}

static void write_totals(struct mt_json *j, const struct mt_report *r)
{
    mt_json_object(j, "totals", 1);
    mt_json_u64(j, "launches", r->run_launches);
    mt_json_u64(j, "records", r->records);
    if (r->reported == UINT64_MAX)
        mt_json_text(j, "reported", NULL);
    else
        mt_json_u64(j, "reported", r->reported);
    mt_json_u64(j, "unknown", r->unknown);
    mt_json_u64(j, "untraced", r->untraced_accesses);
    mt_json_u64(j, "host_accesses", r->host_accesses);
    mt_json_u64(j, "lost", r->lost);
    mt_json_end(j);
    mt_json_object(j, "has", 1);
    mt_json_bool(j, "data", (r->has & MT_REPORT_DATA_VOLUMES) != 0);
    mt_json_bool(j, "comm", (r->has & MT_REPORT_COMM_VOLUMES) != 0);
    mt_json_bool(j, "senders", (r->has & MT_REPORT_SENDERS) != 0);
    mt_json_bool(j, "part_senders", (r->has & MT_REPORT_PART_SENDERS) != 0);
    mt_json_bool(j, "ctas", (r->has & MT_REPORT_CTAS) != 0);
    mt_json_bool(j, "sms", (r->has & MT_REPORT_SMS) != 0);
    mt_json_bool(j, "transfers", (r->has & MT_REPORT_TRANSFERS) != 0);
    mt_json_end(j);
}

/* The data as one JSON value. 0, or -1 without memory. */
static int report_json(struct mt_json *j, const struct mt_report *r)
{
    mt_json_object(j, NULL, 0);
    write_words(j, r);
    write_totals(j, r);
    report_page_words(j);
    mt_summary_json(j, r->summary);
    mt_page_names(j);
    mt_json_array(j, "kernels", 0);
    for (size_t i = 0; i < r->kernels.n; i++)
        mt_json_text(j, NULL, r->kernels.at[i]);
    mt_json_end(j);
    int bad = mt_report_write_lists(j, r) != 0 || mt_report_write_volumes(j, r) != 0 ||
              ((r->has & MT_REPORT_TRANSFERS) && mt_report_write_transfers(j, r) != 0) ||
              mt_report_write_graph(j, r) != 0 || mt_report_write_sources(j, r) != 0 ||
              mt_report_write_shared(j, r) != 0 || (r->more && r->more(r->more_arg, j) != 0);
    mt_json_end(j);
    return bad ? -1 : 0;
}

/* ---- the page ---- */

static int report_page_put(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno != EINTR)
            return errno;
        text += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

/* Text as HTML shows it. */
static int put_escaped(int fd, const char *text, size_t n)
{
    int e = 0;
    for (size_t i = 0, from = 0; e == 0 && i <= n; i++) {
        const char *as = i == n ? "" : text[i] == '<' ? "&lt;" : text[i] == '&' ? "&amp;" : NULL;
        if (!as)
            continue;
        e = report_page_put(fd, text + from, i - from);
        if (e == 0)
            e = report_page_put(fd, as, strlen(as));
        from = i + 1;
    }
    return e;
}

/* 0, errno, or -1 without memory. */
static int put_data(int fd, const struct mt_report *r)
{
    struct mt_json *j = malloc(sizeof *j);
    if (!j)
        return -1;
    mt_json_open(j, fd);
    j->html = 1;
    int rc = report_json(j, r);
    if (mt_json_close(j) != 0 && rc == 0)
        rc = j->error;
    free(j);
    return rc;
}

/* What is in place of the page's marks. */
static int put_part(int fd, const struct mt_report *r, const char *mark, size_t n)
{
#define PART(name) (size_t)(mt_report_##name##_end - mt_report_##name)
    if (n == 5 && memcmp(mark, "style", 5) == 0)
        return report_page_put(fd, mt_report_css, PART(css));
    if (n == 2 && memcmp(mark, "d3", 2) == 0)
        return report_page_put(fd, mt_report_d3, PART(d3));
    if (n == 6 && memcmp(mark, "script", 6) == 0)
        return report_page_put(fd, mt_report_js, PART(js));
    if (n == 7 && memcmp(mark, "licence", 7) == 0)
        return put_escaped(fd, mt_report_licence, PART(licence));
    return n == 4 && memcmp(mark, "data", 4) == 0 ? put_data(fd, r) : 0;
#undef PART
}

int mt_report_page(int fd, const struct mt_report *r, int *error)
{
    static const char open[] = "<!--@";
    const char *at = mt_report_html, *end = mt_report_html_end;
    int e = 0;
    while (e == 0 && at < end) {
        const char *mark = memmem(at, (size_t)(end - at), open, sizeof open - 1);
        const char *close = mark ? memmem(mark, (size_t)(end - mark), "-->", 3) : NULL;
        e = report_page_put(fd, at, (size_t)((close ? mark : end) - at));
        if (e != 0 || !close)
            break;
        mark += sizeof open - 1;
        e = put_part(fd, r, mark, (size_t)(close - mark));
        at = close + 3;
    }
    *error = e > 0 ? e : 0;
    return e ? -1 : 0;
}
