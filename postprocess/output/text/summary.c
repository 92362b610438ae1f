/* What stands out, in sentences. A sentence is only where the trace knows enough for it. */
#define _GNU_SOURCE
#include "summary.h"
#include "finding_words.h"
#include "output/rows/sorted.h"
#include "locality_text.h"
#include "table.h"
#include "numbers.h"
#include "words.h"
#include "base/text.h"
#include "memtrace/order.h"
#include "memtrace/record.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- sentences under way ---- */

enum { SENTENCES = 18 + MT_FINDING_KINDS };
struct summary {
    const struct mt_comm_result *r;
    char *sentence[SENTENCES];
    int look[SENTENCES]; /* it deserves one */
    unsigned n;
    int failed;
    uint32_t *rank; /* of each launch's kernel among the kernels */
    const char **kernels;
    uint32_t *first; /* of each kernel: which one was launched first; those that filters left before */
    size_t nkernels, selected; /* launches that filters left */
};

__attribute__((format(printf, 3, 4))) static void summary_say(struct summary *s, int look, const char *format,
                                                              ...)
{
    va_list args;
    va_start(args, format);
    if (s->n == SENTENCES || vasprintf(&s->sentence[s->n], mt_words(format), args) < 0)
        s->failed = 1;
    else
        s->look[s->n++] = look;
    va_end(args);
}

/* ---- kernels ---- */

/* Of equal ones the page, whose kernels are in this order, names the first one. */
static int summary_first(struct summary *s)
{
    const struct mt_comm *c = s->r->comm;
    uint32_t n = 0;
    s->first = malloc((s->nkernels + 1) * sizeof *s->first);
    if (!s->first)
        return -1;
    memset(s->first, 0xff, (s->nkernels + 1) * sizeof *s->first);
    for (int selected = 1; selected >= 0; selected--)
        for (size_t i = 0; i < c->nlaunches; i++)
            if (!c->launches[i].selected == !selected && s->first[s->rank[i]] == UINT32_MAX)
                s->first[s->rank[i]] = n++;
    return 0;
}

static int summary_rank(struct summary *s)
{
    const struct mt_comm *c = s->r->comm;
    s->rank = mt_kernel_ranks(c);
    s->kernels = malloc((c->nlaunches + 1) * sizeof *s->kernels);
    if (!s->rank || !s->kernels)
        return -1;
    for (size_t i = 0; i < c->nlaunches; i++) {
        s->kernels[s->rank[i]] = c->launches[i].kernel;
        s->nkernels = s->rank[i] >= s->nkernels ? s->rank[i] + 1 : s->nkernels;
        s->selected += c->launches[i].selected != 0;
    }
    return summary_first(s);
}

struct total {
    struct mt_volume v;
    uint64_t launches;
};

static void summary_add(struct total *t, const struct mt_volume *v)
{
    t->launches++;
    mt_volume_add(&t->v, v);
}

/* Sums of the selected launches, all together and of each kernel (`by`). */
static struct total summary_totals(const struct summary *s, struct total *by)
{
    struct total all = {0};
    for (size_t i = 0; i < s->r->comm->nlaunches; i++) {
        if (!s->r->comm->launches[i].selected)
            continue;
        struct mt_volume v = mt_volume_of_launch(s->r->comm, i);
        summary_add(&all, &v);
        summary_add(&by[s->rank[i]], &v);
    }
    return all;
}

static uint64_t summary_actors(const struct mt_comm *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->nlaunches; i++)
        n += c->launches[i].selected ? c->launches[i].end - c->launches[i].first : 0;
    return n;
}

static void summary_kernels(struct summary *s, const struct total *by, const struct total *all)
{
    size_t top = 0, n = 0;
    for (size_t i = 0; i < s->nkernels; i++) {
        n += by[i].launches != 0;
        uint64_t moved = by[i].v.load + by[i].v.store, most = by[top].v.load + by[top].v.store;
        if (moved > most || (moved == most && s->first[i] < s->first[top]))
            top = i;
    }
    uint64_t moved = all->v.load + all->v.store;
    if (!moved)
        return;
    char *name = mt_kernel_short(s->kernels[top]);
    const struct total *t = &by[top];
    if (n == 1 && s->r->comm->options.threads)
        summary_say(s, 0, "The program, %s, loads %s and stores %s in %s.", name ? name : "?",
                    mt_number_bytes(t->v.load).text, mt_number_bytes(t->v.store).text,
                    mt_number_many(summary_actors(s->r->comm), "thread", "threads").text);
    else if (n == 1)
        summary_say(s, 0, "One kernel, %s, moves all bytes: %s loaded, %s stored in %s.", name ? name : "?",
                    mt_number_bytes(t->v.load).text, mt_number_bytes(t->v.store).text,
                    mt_number_many(t->launches, "launch", "launches").text);
    else
        summary_say(s, 0, "%s moves most: %s, %s of all bytes, in %s of %s.", name ? name : "?",
                    mt_number_bytes(t->v.load + t->v.store).text,
                    mt_number_percent(t->v.load + t->v.store, moved).text, mt_number_count(t->launches).text,
                    mt_number_many(all->launches, "launch", "launches").text);
    free(name);
}

/* ---- transfers ---- */

/* More bytes, or as many and earlier. */
static int summary_before(const struct summary *s, const struct mt_sent *a, const struct mt_sent *b)
{
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes;
    if (a->reader != b->reader)
        return a->reader < b->reader;
    return s->first[a->src] < s->first[b->src];
}

struct flow {
    uint64_t from_host, to_host, pairs;
    struct mt_sent top;
};

/* 0, or -1 without memory. */
static int summary_flow(const struct summary *s, struct flow *f)
{
    size_t n;
    struct mt_sent *list = mt_sent_of(s->r->comm, s->rank, &n);
    memset(f, 0, sizeof *f);
    for (size_t i = 0; list && i < n; i++) {
        if (list[i].dst == MT_SENT_HOST)
            f->to_host += list[i].bytes;
        else if (list[i].src == MT_SENT_HOST)
            f->from_host += list[i].bytes;
        else if (!f->pairs++ || summary_before(s, &list[i], &f->top))
            f->top = list[i];
    }
    free(list);
    return list ? 0 : -1;
}

/* "12 B (0.3 %) were last written by another CTA of the same launch, …": what the options count. */
static void summary_senders(const struct summary *s, const struct total *all, char *out, size_t room)
{
    const struct mt_comm_options *o = &s->r->comm->options;
    size_t at = 0;
    for (int i = 0; i < MT_SENDER_KINDS && at < room; i++) {
        if ((i == MT_FROM_SAME_LAUNCH ? o->strict : i == MT_FROM_SAME_CTA && o->local) ||
            (o->threads && i != MT_FROM_SAME_LAUNCH && s->r->comm->nlaunches == 1))
            continue;
        at += (size_t)snprintf(out + at, room - at, "%s%s (%s)%s by %s", at ? ", " : "",
                               mt_number_bytes(all->v.from[i]).text,
                               mt_number_percent(all->v.from[i], all->v.load).text,
                               at ? "" : " were last written", mt_words(mt_sender_words[i]));
    }
}

static void summary_transfers(struct summary *s, const struct total *all)
{
    static const char *const nobody[2][2] = {{"another CTA or an earlier launch", "an earlier launch"},
                                             {"another CTA", "another CTA of an earlier launch"}};
    const struct mt_comm_options *o = &s->r->comm->options;
    char parts[400];
    struct flow f;
    if (summary_flow(s, &f) != 0) {
        s->failed = 1;
        return;
    }
    if (!all->v.comm_load) {
        summary_say(s, 0, "No CTA loads what %s wrote%s", mt_words(nobody[o->local != 0][o->strict != 0]),
                    f.from_host ? ": all that has a writer came from the host." : ".");
    } else {
        char *from = mt_kernel_short(f.pairs ? s->kernels[f.top.src] : "");
        char *to = mt_kernel_short(f.pairs ? s->kernels[f.top.dst] : "");
        summary_senders(s, all, parts, sizeof parts);
        summary_say(s, 0, "Of what CTAs load, %s%s%s%s%s%s%s.", parts,
                    f.pairs > 1 ? "; most of it goes from "
                    : f.pairs   ? "; it goes from "
                                : "",
                    from ? from : "?", f.pairs ? " to " : "", to ? to : "?", f.pairs > 1 ? ": " : "",
                    f.pairs > 1 ? mt_number_bytes(f.top.bytes).text : "");
        free(from);
        free(to);
    }
    if (o->host && f.to_host && f.from_host)
        summary_say(s, 0, "Host code loads %s that CTAs wrote; CTAs load %s that the host wrote.",
                    mt_number_bytes(f.to_host).text, mt_number_bytes(f.from_host).text);
    else if (o->host && f.to_host)
        summary_say(s, 0, "Host code loads %s that CTAs wrote.", mt_number_bytes(f.to_host).text);
}

/* ---- the further analyses ---- */

static void summary_lines(struct summary *s)
{
    const struct mt_lines *l = &s->r->locality->lines;
    size_t n = s->r->sites->lines.count, known = 0, top = 0;
    uint64_t *sum = calloc(n + 1, sizeof *sum), all = 0;
    char *there = calloc(n + 1, 1);
    s->failed |= !sum || !there;
    for (size_t i = 0; sum && there && i < l->count[MT_BY_LINE]; i++) {
        const struct mt_lines_cell *c = &l->cells[MT_BY_LINE][i];
        sum[c->place] += c->load + c->store;
        there[c->place] = 1;
        all += c->load + c->store;
    }
    for (size_t i = 1; sum && there && i < n; i++) {
        known += (size_t)there[i];
        if (there[i] &&
            (!top || sum[i] > sum[top] ||
             (sum[i] == sum[top] && strcmp(s->r->sites->lines.names[i], s->r->sites->lines.names[top]) < 0)))
            top = i;
    }
    if (known >= 2 && all)
        summary_say(s, 0, "Line %s moves most of %s: %s, %s of all bytes.",
                    mt_location_short(s->r->sites->lines.names[top]),
                    mt_number_many(known, "line", "lines").text, mt_number_bytes(sum[top]).text,
                    mt_number_percent(sum[top], all).text);
    free(sum);
    free(there);
}

static int summary_has(const char *const *list, size_t n, const char *name)
{
    while (n && strcmp(list[n - 1], name) != 0)
        n--;
    return n != 0;
}

/* Of these kernels one request may be several: nothing is said of how well they go together. */
static void summary_apart(struct summary *s, const char *const *list, size_t n)
{
    char *kernel = n && s->r->locality->coalescing.count ? mt_kernel_short(list[0]) : NULL;
    if (kernel)
        summary_say(
            s, 0,
            "It is not known how well the accesses of %s%s%s go together: lanes of %s warps were taken "
            "apart.",
            kernel, n > 1 ? " and " : "",
            n > 1 ? mt_number_many(n - 1, "other kernel", "other kernels").text : "",
            n > 1 ? "their" : "its");
    free(kernel);
}

static void summary_coalescing(struct summary *s)
{
    enum { SECTOR = 1 << MT_SECTOR_BITS };
    const struct mt_coalescing *x = &s->r->locality->coalescing;
    uint64_t moved = 0, lost = 0, most = 0;
    size_t napart, *order = mt_coalescing_order(x, s->r->sites);
    const char **apart = mt_kernels_apart(s->r->comm, s->r->events, &napart);
    const struct mt_coalescing_cell *top = NULL;
    s->failed |= !order || !apart;
    for (size_t i = 0; order && apart && i < x->count; i++) {
        const struct mt_coalescing_cell *c = &x->cells[order[i]];
        if (summary_has(apart, napart, c->kernel))
            continue;
        uint64_t all = c->sectors * SECTOR, vain = all > c->distinct ? all - c->distinct : 0;
        moved += all;
        lost += vain;
        if (!top || vain > most) {
            top = c;
            most = vain;
        }
    }
    free(order);
    if (apart)
        summary_apart(s, apart, napart);
    free(apart);
    if (!moved || !top)
        return;
    if ((double)lost < 0.1 * (double)moved) {
        summary_say(s, 0, "Warps use %s of the sectors that they move: accesses are well coalesced.",
                    mt_number_percent(moved - lost, moved).text);
        return;
    }
    char *kernel = top->line ? NULL : mt_kernel_short(top->kernel);
    summary_say(s, 1,
                "Warps use %s of the %s that they move; most is lost by the %s at %s: %s sectors per "
                "request, %s used%s.",
                mt_number_percent(moved - lost, moved).text, mt_number_bytes(moved).text,
                mt_access_types[top->type],
                kernel ? kernel : mt_location_short(s->r->sites->lines.names[top->line]),
                mt_number_decimals((double)top->sectors / (double)top->requests, 1).text,
                mt_number_percent(top->distinct, top->sectors * SECTOR).text,
                mt_coalescing_halves(x, (size_t)(top - x->cells)) ? MT_HALVES_WORDS : "");
    free(kernel);
}

static void summary_turns(struct summary *s)
{
    char *sentence;
    s->failed |= mt_turns_sentence(s->r, s->rank, s->kernels, &sentence) != 0;
    if (sentence)
        summary_say(s, 0, "%s", sentence);
    free(sentence);
}

static void summary_footprint(struct summary *s)
{
    const struct mt_reuse *x = &s->r->locality->reuse;
    uint64_t lines = mt_reuse_footprint(x);
    if (lines)
        summary_say(s, 0, "The run%s touches %s%s of %s bytes: its footprint is %s.",
                    s->r->comm->partial ? ", with launches that are left out here," : "",
                    x->sample_bits ? "about " : "", mt_number_many(lines, "cache line", "cache lines").text,
                    mt_number_count(1ull << x->options.line_bits).text,
                    mt_number_bytes(lines << x->options.line_bits).text);
}

static void summary_sharing(struct summary *s)
{
    char *sentence;
    int look;
    s->failed |= mt_falsely_sentence(s->r, s->rank, s->kernels, &sentence, &look) != 0;
    if (sentence)
        summary_say(s, look, "%s", sentence);
    free(sentence);
}

static void summary_conflicts(struct summary *s)
{
    const struct mt_conflicts *x = &s->r->locality->conflicts;
    struct mt_conflict *list = mt_conflicts_sorted(x);
    const struct mt_conflict *top = list;
    struct {
        char text[300];
    } side[2];
    s->failed |= !list;
    for (size_t i = 0; list && i < x->count; i++)
        top = list[i].bytes > top->bytes ? &list[i] : top;
    if (list && !x->count)
        summary_say(
            s, 0,
            "No two CTAs of one launch conflict: none writes with a plain store what another one touches.");
    for (int i = 0; list && x->count && i < 2; i++) {
        uint32_t line = mt_side_line(top->side[i]);
        snprintf(side[i].text, sizeof side[i].text, "%.250s%s%s",
                 line ? mt_location_short(s->r->sites->lines.names[line]) : "", line ? " " : "",
                 mt_words_type(mt_side_type(top->side[i])));
    }
    if (list && x->count) {
        char *kernel = mt_kernel_short(top->kernel);
        summary_say(s, 1,
                    "%s between CTAs of one launch (races, unless the program orders them), the largest in "
                    "%s: %s against %s on %s.",
                    mt_number_many(x->count, "conflict", "conflicts").text, kernel ? kernel : "?",
                    side[0].text, side[1].text, mt_number_bytes(top->bytes).text);
        free(kernel);
    }
    free(list);
}

/* A quarter of what a line fetches is not used, and it is more than a handful of cache lines. */
static int summary_wasteful(const struct mt_miss *m)
{
    enum { FEW = 64 };
    return m->misses >= FEW && m->fetched - m->used >= m->fetched / 4;
}

/* The line that fetches most in vain, if that is worth a word. */
static void summary_misses(struct summary *s)
{
    const struct mt_misses *x = &s->r->locality->misses;
    struct mt_miss *list = mt_misses_sorted(x, s->r->sites);
    const struct mt_miss *top = NULL;
    uint64_t misses = 0, accesses = 0;
    s->failed |= !list;
    for (size_t i = 0; list && i < x->count; i++) {
        misses += list[i].misses;
        accesses += list[i].accesses;
        if (!top || list[i].fetched - list[i].used > top->fetched - top->used)
            top = &list[i];
    }
    if (top && misses && summary_wasteful(top))
        summary_say(
            s, misses > accesses / 50 && top->used < top->fetched / 2,
            "Caches of %s miss %s of %s; most is fetched in vain by %s: %s of its accesses miss, %s used of "
            "what they fetch.",
            mt_number_bytes(x->options.cache_bytes).text, mt_number_percent(misses, accesses).text,
            mt_number_many(accesses, "access", "accesses").text,
            mt_location_short(s->r->sites->lines.names[top->line]),
            mt_number_percent(top->misses, top->accesses).text,
            mt_number_percent(top->used, top->fetched).text);
    else if (misses)
        summary_say(s, 0, "Caches of %s miss %s of %s.", mt_number_bytes(x->options.cache_bytes).text,
                    mt_number_percent(misses, accesses).text,
                    mt_number_many(accesses, "access", "accesses").text);
    free(list);
}

/* The buffer whose lines go to and fro most, and the pair of source lines that does it most often. */
static void summary_bounces(struct summary *s)
{
    const struct mt_locality *m = s->r->locality;
    struct mt_bounce *list = mt_bounces_sorted(&m->bounces);
    char label[MT_ALLOC_LABEL];
    uint64_t all = 0, same = 0, sum = 0;
    s->failed |= !list;
    for (size_t i = 0; list && i < m->bounces.count; i++) {
        sum += list[i].times;
        if (list[i].alloc == list[0].alloc) {
            all += list[i].times;
            same += list[i].same;
        }
    }
    if (all) {
        uint32_t from = list[0].line[0], to = list[0].line[1];
        summary_say(s, all - same > all / 2,
                    "Cache lines go from thread to thread %s, those of %s %s: %s %s, mostly from %s to %s.",
                    mt_number_many(sum, "time", "times").text, mt_alloc_label(label, m, list[0].alloc),
                    mt_number_count(all).text, mt_number_percent(all - same, all).text,
                    "for other bytes than were stored (false sharing)",
                    mt_location_short(s->r->sites->lines.names[from]),
                    mt_location_short(s->r->sites->lines.names[to]));
    }
    free(list);
}

static void summary_devices(struct summary *s)
{
    char *sentence;
    s->failed |= mt_devices_sentence(s->r, &sentence) != 0;
    if (sentence)
        summary_say(s, 0, "%s", sentence);
    free(sentence);
}

/* A call that reallocates again and again. */
static void summary_growing(struct summary *s)
{
    enum { MANY = 16 };
    const struct mt_locality *m = s->r->locality;
    const struct mt_alloc_event *top = NULL;
    for (size_t i = 0; i < m->nallocs; i++) {
        const struct mt_alloc_event *a = &m->allocs[i];
        if (a->like >= MANY && strcmp(a->kind, "realloc") == 0 && (!top || a->total > top->total))
            top = a;
    }
    if (top && *top->file)
        summary_say(
            s, 0, "realloc at %s:%" PRIu64 " is called %s times, for %s in all: does it grow in small steps?",
            mt_location_short(top->file), top->line, mt_number_count(top->like).text,
            mt_number_bytes(top->total).text);
}

static void summary_placement(struct summary *s)
{
    const struct mt_placement *p = s->r->placement;
    int best = 0;
    if (!p->load || s->r->comm->options.threads)
        return;
    for (int i = 1; i < MT_PLACE_POLICIES; i++)
        best = p->cross[i] < p->cross[best] ? i : best;
    if (p->ran_known && p->ran <= p->cross[best]) /* no advice: it ran better */
        return;
    struct mt_number ran = mt_number_percent(p->ran, p->load);
    summary_say(s, 0, "Over %s, %s of the communication would cross with the best placement tried, %s%s%s.",
                mt_number_many(p->devices, "device", "devices").text,
                p->cross[best] ? mt_number_percent(p->cross[best], p->load).text : "none",
                mt_placement_words[best], p->ran_known ? "; as it ran: " : "", p->ran_known ? ran.text : "");
}

/* ---- shared memory ---- */

static void summary_onchip(struct summary *s, int (*make)(const struct mt_onchip_rows *, char **, int *))
{
    char *sentence = NULL;
    int look = 0;
    s->failed |= s->r->onchip && make(s->r->onchip, &sentence, &look) != 0;
    if (sentence)
        summary_say(s, look, "%s", sentence);
    free(sentence);
}

/* ---- samples ---- */

static void summary_sample(struct summary *s, const struct mt_estimates *estimates, const struct total *by)
{
    const struct mt_estimate *top = NULL;
    struct total sum = {0};
    for (size_t i = 0; i < estimates->n; i++) {
        const struct mt_estimate *e = &estimates->list[i];
        for (size_t k = 0; k < s->nkernels; k++)
            if (e->traced_ctas && strcmp(s->kernels[k], e->kernel) == 0 && by[k].launches &&
                by[k].v.load + by[k].v.store >= sum.v.load + sum.v.store) {
                top = e;
                sum = by[k];
            }
    }
    if (!top || top->traced_ctas == top->ctas)
        return;
    char *kernel = mt_kernel_short(top->kernel);
    summary_say(s, 1,
                "A sample: %s of %s CTAs of %s are traced; all of them would load about %s and store %s. No "
                "other figure is scaled, and what a CTA read of one that is not traced has an earlier "
                "sender, or none.",
                mt_number_count(top->traced_ctas).text, mt_number_count(top->ctas).text,
                kernel ? kernel : "?",
                mt_number_bytes(mt_estimate(sum.v.load, top->ctas, top->traced_ctas)).text,
                mt_number_bytes(mt_estimate(sum.v.store, top->ctas, top->traced_ctas)).text);
    free(kernel);
}

/* ---- what should not be ---- */

static void summary_finding(void *arg, int look, const char *sentence)
{
    summary_say(arg, look, "%s", sentence);
}

static void summary_all(struct summary *s, const struct mt_estimates *estimates)
{
    struct total *by = calloc(s->nkernels + 1, sizeof *by);
    if (!by) {
        s->failed = 1;
        return;
    }
    struct total all = summary_totals(s, by);
    if (all.launches)
        summary_conflicts(s);
    summary_onchip(s, mt_hazards_sentence);
    summary_kernels(s, by, &all);
    if (all.launches)
        summary_transfers(s, &all);
    summary_lines(s);
    summary_coalescing(s);
    summary_sharing(s);
    summary_misses(s);
    summary_growing(s);
    summary_bounces(s);
    summary_devices(s);
    summary_turns(s);
    summary_footprint(s);
    summary_onchip(s, mt_banks_sentence);
    summary_placement(s);
    summary_sample(s, estimates, by);
    free(by);
}

static void summary_nothing(struct summary *s)
{
    summary_say(s, 0,
                "No access of the traced launches %swas recorded: their kernels touch no global memory, or "
                "filters left nothing.",
                s->r->onchip && s->r->onchip->nplaces ? "to global memory " : "");
    summary_onchip(s, mt_hazards_sentence);
    summary_onchip(s, mt_banks_sentence);
}

int mt_summary_write(FILE *f, const struct mt_comm_result *r, const struct mt_estimates *estimates,
                     const struct mt_findings *findings)
{
    struct summary s = {.r = r};
    if (summary_rank(&s) != 0)
        s.failed = 1;
    else if (!s.selected && !r->comm->host_accesses) {
        summary_say(&s, 0, "No launch is in this trace, or filters left none.");
        summary_devices(&s);
    } else if (!r->comm->records && !r->comm->host_accesses)
        summary_nothing(&s);
    else
        summary_all(&s, estimates);
    s.failed |= mt_findings_summary(findings, summary_finding, &s) != 0;
    for (int look = 1; look >= 0; look--)
        for (unsigned i = 0; i < s.n && !s.failed; i++)
            if (s.look[i] == look) {
                fputs(look ? "! " : "- ", f);
                mt_text_put(f, s.sentence[i]);
                fputc('\n', f);
            }
    for (unsigned i = 0; i < s.n; i++)
        free(s.sentence[i]);
    free(s.rank);
    free(s.first);
    free(s.kernels);
    return s.failed ? -1 : 0;
}
