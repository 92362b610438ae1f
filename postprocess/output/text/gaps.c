/* Finds what is missing in the figures of a trace that is otherwise complete. */
#define _GNU_SOURCE
#include "gaps.h"
#include "output/rows/sorted.h"
#include "table.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static int gaps_say(struct mt_gaps *g, enum mt_gap gap,
                                                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vasprintf(&g->sentence[gap], format, args);
    va_end(args);
    if (n < 0)
        g->sentence[gap] = NULL;
    return n < 0 ? -1 : 0;
}

static const char *gaps_of_run(int of_run)
{
    return of_run ? " of the run" : "";
}

int mt_gaps_launches(struct mt_gaps *g, uint64_t launches, int of_run)
{
    if (!launches)
        return 0;
    return gaps_say(g, MT_GAP_LAUNCHES,
                    "%s%s %s not traced, by attribute, pragma, filter or limit; what %s not known.",
                    mt_number_many(launches, "launch", "launches").text, gaps_of_run(of_run),
                    launches == 1 ? "was" : "were", launches == 1 ? "it writes is" : "they write is");
}

int mt_gaps_untraced(struct mt_gaps *g, const struct mt_untraced *u, int of_run)
{
    if (!u->accesses)
        return 0;
    char *kernel = u->kernel ? mt_kernel_short(u->kernel) : NULL;
    int rc = gaps_say(
        g, MT_GAP_UNTRACED,
        "%s%s%s%s%s%s%s %s no record and %s in no figure: texture and surface accesses, bulk tensor copies, "
        "instructions of inline asm that memtrace does not know.",
        u->unseen ? "At least " : "", mt_number_many(u->accesses, "access", "accesses").text,
        gaps_of_run(of_run), kernel ? " in " : "", kernel ? kernel : "", u->kernels > 1 ? " and " : "",
        u->kernels > 1 ? mt_number_many(u->kernels - 1, "other kernel", "other kernels").text : "",
        u->accesses == 1 ? "has" : "have", u->accesses == 1 ? "is" : "are");
    free(kernel);
    return rc;
}

static int gaps_accesses(struct mt_gaps *g, const struct mt_source *source, int of_run)
{
    struct mt_run_parts parts;
    struct mt_untraced untraced = {0};
    int rc = mt_run_parts_gather(&parts, source, mt_source_inputs(source));
    for (size_t i = 0; rc == 0 && i < parts.n; i++)
        mt_untraced_add(&untraced, &parts.list[i]);
    rc = rc ? rc : mt_gaps_untraced(g, &untraced, of_run);
    mt_run_parts_free(&parts);
    return rc;
}

static int gaps_failed(struct mt_gaps *g, const struct mt_launch_event *const *launches, size_t n, int of_run)
{
    const struct mt_launch_event *first = NULL;
    uint64_t failed = 0;
    for (size_t i = 0; i < n; i++) {
        if (!launches[i]->status)
            continue;
        first = first ? first : launches[i];
        failed++;
    }
    if (!failed)
        return 0;
    char *kernel = mt_kernel_short(first->kernel);
    int rc =
        gaps_say(g, MT_GAP_FAILED, "%s%s failed (%s%s: error %d); %s accesses are those made up to there.",
                 mt_number_many(failed, "launch", "launches").text, gaps_of_run(of_run),
                 failed > 1 ? "the first is " : "", kernel ? kernel : "?", first->status,
                 failed > 1 ? "their" : "its");
    free(kernel);
    return rc;
}

/* Returns read[i], 1 if kernels load from the i-th allocation. NULL: no memory. */
static char *gaps_read(const struct mt_traffic *traffic, size_t n)
{
    const struct mt_traffic_grid *grid = traffic ? &traffic->launches : NULL;
    char *read = malloc(n + 1);
    if (read)
        memset(read, !traffic, n + 1);
    for (size_t i = 0; read && grid && i < grid->count; i++)
        if (grid->cells[i].load && grid->cells[i].alloc < n)
            read[grid->cells[i].alloc] = 1;
    return read;
}

enum { GAPS_NAMED = 3 };

static int gaps_host(struct mt_gaps *g, const struct mt_alloc_event *allocs, size_t n,
                     const struct mt_traffic *traffic)
{
    char names[GAPS_NAMED * (MT_ALLOC_LABEL + 2)] = "", label[MT_ALLOC_LABEL], *read = gaps_read(traffic, n);
    uint64_t found = 0;
    if (!read)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (read[i] && (strcmp(allocs[i].kind, "managed") == 0 || strcmp(allocs[i].kind, "host") == 0) &&
            found++ < GAPS_NAMED)
            strcat(strcat(names, found > 1 ? ", " : ""), mt_alloc_event_label(label, &allocs[i]));
    free(read);
    if (!found)
        return 0;
    return gaps_say(
        g, MT_GAP_HOST,
        "Host code may have written managed or mapped memory (%s%s%s); what it writes is not seen: "
        "mt-cc --host records it.",
        names, found > GAPS_NAMED ? " and " : "",
        found > GAPS_NAMED ? mt_number_many(found - GAPS_NAMED, "other", "others").text : "");
}

int mt_gaps_apart(struct mt_gaps *g, const char *kernel)
{
    for (size_t i = 0; i < g->napart; i++)
        if (!strcmp(g->apart[i], kernel))
            return 0;
    char **more = realloc(g->apart, (g->napart + 1) * sizeof *more);
    g->apart = more ? more : g->apart;
    char *name = more ? strdup(kernel) : NULL;
    if (name)
        g->apart[g->napart++] = name;
    return name ? 0 : -1;
}

static int gaps_parted(struct mt_gaps *g, const struct mt_launch_event *const *launches, size_t n)
{
    const struct mt_launch_event *most = NULL;
    uint64_t parted = 0;
    for (size_t i = 0; i < n; i++) {
        parted += launches[i]->parted;
        if ((launches[i]->parted || launches[i]->ungrouped) && mt_gaps_apart(g, launches[i]->kernel) != 0)
            return -1;
        if (launches[i]->parted > (most ? most->parted : 0))
            most = launches[i];
    }
    if (!most)
        return 0;
    char *kernel = mt_kernel_short(most->kernel);
    int rc = gaps_say(g, MT_GAP_PARTED,
                      "%s (most in %s) lanes of a warp were split, or kept together, where a GPU may not do "
                      "so: it may make more or fewer requests.",
                      mt_number_many(parted, "time", "times").text, kernel ? kernel : "?");
    free(kernel);
    return rc;
}

static int gaps_ungrouped(struct mt_gaps *g, const struct mt_launch_event *const *launches, size_t n)
{
    const struct mt_launch_event *first = NULL;
    uint64_t ungrouped = 0;
    for (size_t i = 0; i < n; i++) {
        ungrouped += launches[i]->ungrouped != 0;
        first = first || !launches[i]->ungrouped ? first : launches[i];
    }
    if (!first)
        return 0;
    char *kernel = mt_kernel_short(first->kernel);
    int rc = gaps_say(
        g, MT_GAP_UNGROUPED,
        "The accesses of %s (%s%s) are not grouped into requests of warps, as %s a thread at a time: "
        "how well they coalesce, and their bank conflicts, are not known.",
        mt_number_many(ungrouped, "launch", "launches").text, ungrouped > 1 ? "the first is of " : "",
        kernel ? kernel : "?", ungrouped > 1 ? "they ran" : "it ran");
    free(kernel);
    return rc;
}

static int gaps_repeated(struct mt_gaps *g, const struct mt_launch_event *const *launches, size_t n)
{
    const struct mt_launch_event *most = NULL;
    uint64_t repeated = 0;
    for (size_t i = 0; i < n; i++) {
        repeated += launches[i]->repeated;
        most = launches[i]->repeated > (most ? most->repeated : 0) ? launches[i] : most;
    }
    if (!most)
        return 0;
    char *kernel = mt_kernel_short(most->kernel);
    int rc =
        gaps_say(g, MT_GAP_REPEATED,
                 "%s (most of %s) repeated the one before, as threads do that wait for others, and %s in "
                 "no figure; the first and the last of each series are.",
                 mt_number_many(repeated, "access", "accesses").text, kernel ? kernel : "?",
                 repeated == 1 ? "is" : "are");
    free(kernel);
    return rc;
}

static int gaps_library(struct mt_gaps *g, const struct mt_source *source)
{
    uint64_t left = 0;
    for (size_t i = 0; i < mt_source_inputs(source); i++) {
        const struct mt_companion *c = mt_source_companion(source, i);
        left += c ? c->left_out : 0;
    }
    if (!left)
        return 0;
    return gaps_say(g, MT_GAP_LIBRARY,
                    "%s of libraries, mostly of the loader and the C library, %s left out (memtrace host "
                    "--library=all records them).",
                    mt_number_many(left, "access", "accesses").text, left == 1 ? "is" : "are");
}

static int gaps_children(struct mt_gaps *g, const struct mt_source *source)
{
    uint64_t children = 0;
    for (size_t i = 0; i < mt_source_inputs(source); i++) {
        const struct mt_companion *c = mt_source_companion(source, i);
        children += c ? c->children : 0;
    }
    if (!children)
        return 0;
    return gaps_say(
        g, MT_GAP_CHILDREN,
        "%s of the program %s not traced (memtrace host before the command that a child runs traces it).",
        mt_number_many(children, "child process", "child processes").text, children == 1 ? "is" : "are");
}

static int gaps_only(struct mt_gaps *g, const struct mt_source *source)
{
    for (size_t i = 0; i < mt_source_inputs(source); i++) {
        const struct mt_companion *c = mt_source_companion(source, i);
        if (c && c->only && *c->only)
            return gaps_say(
                g, MT_GAP_ONLY,
                "The GPU counted the accesses of each line itself (memtrace run --only): lines and "
                "coalescing are all that is known; volumes by CTA and communication are empty.");
    }
    return 0;
}

int mt_gaps_find(struct mt_gaps *g, struct mt_source *source, const struct mt_comm *c,
                 const struct mt_traffic *traffic)
{
    size_t n, nallocs, untraced = 0;
    int of_run = mt_comm_reported_launches(c) < c->nlaunches;
    const struct mt_launch_event **launches = mt_source_launches(source, &n);
    const struct mt_alloc_event *allocs = mt_source_allocs(source, &nallocs);
    memset(g, 0, sizeof *g);
    for (size_t i = 0; launches && i < n; i++)
        untraced += !launches[i]->traced;
    int bad = !launches || mt_gaps_launches(g, untraced, of_run) != 0 ||
              gaps_accesses(g, source, of_run) != 0 || gaps_failed(g, launches, n, of_run) != 0 ||
              gaps_parted(g, launches, n) != 0 || gaps_ungrouped(g, launches, n) != 0 ||
              gaps_repeated(g, launches, n) != 0 || gaps_library(g, source) != 0 ||
              gaps_children(g, source) != 0 || gaps_only(g, source) != 0 ||
              (!c->options.host && gaps_host(g, allocs, nallocs, traffic) != 0);
    free(launches);
    return bad ? -1 : 0;
}

void mt_gaps_write(struct mt_json *j, const struct mt_gaps *g)
{
    mt_json_array(j, "gaps", 0);
    for (int i = 0; i < MT_GAPS; i++)
        if (g->sentence[i])
            mt_json_text(j, NULL, g->sentence[i]);
    mt_json_end(j);
    if (g->napart)
        mt_json_array(j, "apart", 0);
    for (size_t i = 0; i < g->napart; i++)
        mt_json_text(j, NULL, g->apart[i]);
    if (g->napart)
        mt_json_end(j);
}

void mt_gaps_free(struct mt_gaps *g)
{
    for (int i = 0; i < MT_GAPS; i++)
        free(g->sentence[i]);
    for (size_t i = 0; i < g->napart; i++)
        free(g->apart[i]);
    free(g->apart);
    memset(g, 0, sizeof *g);
}
