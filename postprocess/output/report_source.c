/* Lines of source files, as they are when the report is made: those that the report speaks of and a few
 * around them. A file that is not there any more has none. */
#define _GNU_SOURCE
#include "report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { AROUND = 4, MOST_FILES = 200, MOST_BYTES = 1 << 20, LONGEST = 400 };

struct mention {
    const char *file;
    uint64_t line;
};

struct mentions {
    struct mention *at;
    size_t n, room;
};

static int mention_order(const void *a, const void *b)
{
    const struct mention *x = a, *y = b;
    int d = strcmp(x->file, y->file);
    return d ? d : x->line < y->line ? -1 : x->line > y->line;
}

static int mention(struct mentions *m, const char *file, uint64_t line)
{
    if (!file || !*file || line == 0)
        return 0;
    struct mention *at = mt_report_more(m, sizeof *at);
    if (at)
        *at = (struct mention){file, line};
    return at ? 0 : -1;
}

static int collect(struct mentions *m, const struct mt_report *r)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->sites.n; i++)
        rc = mention(m, r->sites.at[i].file, r->sites.at[i].line);
    for (size_t i = 0; rc == 0 && i < r->launches.n; i++)
        if (r->launches.at[i].event)
            rc = mention(m, r->launches.at[i].event->file, r->launches.at[i].event->line);
    for (size_t i = 0; rc == 0 && i < r->nallocs; i++)
        rc = mention(m, r->allocs[i].file, r->allocs[i].line);
    if (m->n)
        qsort(m->at, m->n, sizeof *m->at, mention_order);
    return rc;
}

/* A regular file only: a FIFO by that name would wait for ever. */
static FILE *open_source(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "r") : NULL;
}

/* Is so little left out in front of this mention that it can as well be shown? */
static int small_gap(const struct mention *m, size_t next)
{
    return next > 0 && m[next].line <= m[next - 1].line + 2 * AROUND + 3;
}

/* The lines near mentions [0, n) of one file: [number, text]. */
static void write_file(struct mt_json *j, FILE *f, const struct mention *m, size_t n, size_t *left)
{
    char *line = NULL;
    size_t room = 0, next = 0;
    ssize_t length;
    mt_json_array(j, "lines", 0);
    for (uint64_t number = 1; next < n && (length = getline(&line, &room, f)) > 0; number++) {
        while (next < n && m[next].line + AROUND < number)
            next++;
        if (next == n || (m[next].line > number + AROUND && !small_gap(m, next)))
            continue;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = 0;
        if (length > LONGEST)
            line[LONGEST] = 0;
        if (strlen(line) > *left)
            break;
        *left -= strlen(line);
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, number);
        mt_json_text(j, NULL, line);
        mt_json_end(j);
    }
    mt_json_end(j);
    free(line);
}

int mt_report_write_sources(struct mt_json *j, const struct mt_report *r)
{
    struct mentions m = {0};
    size_t left = MOST_BYTES;
    int rc = collect(&m, r);
    mt_json_object(j, "sources", 0);
    for (size_t i = 0, end, files = 0; rc == 0 && r->with_sources && i < m.n && files < MOST_FILES; i = end) {
        for (end = i; end < m.n && strcmp(m.at[end].file, m.at[i].file) == 0;)
            end++;
        FILE *f = open_source(m.at[i].file);
        if (!f)
            continue;
        files++;
        mt_json_object(j, m.at[i].file, 0);
        write_file(j, f, m.at + i, end - i, &left);
        mt_json_end(j);
        fclose(f);
    }
    mt_json_end(j);
    free(m.at);
    return rc;
}
