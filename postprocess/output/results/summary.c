/* What stands out: the communication, in sentences, and those of all analyses in their order. */
#define _GNU_SOURCE
#include "summary.h"
#include "output/text/finding_words.h"
#include "base/text.h"
#include "memtrace/grow.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- sentences under way ---- */

struct mt_sentence {
    char *text;
    int place, look;
    size_t number; /* in the order in which they were said */
};

void mt_summary_say(struct mt_summary *s, int place, int look, const char *format, ...)
{
    va_list args;
    if (mt_grow(&s->list, &s->room, s->n + 1, sizeof *s->list) != 0) {
        s->failed = 1;
        return;
    }
    struct mt_sentence *x = &s->list[s->n];
    *x = (struct mt_sentence){.place = place, .look = look, .number = s->n};
    va_start(args, format);
    if (vasprintf(&x->text, format, args) < 0)
        s->failed = 1;
    else
        s->n++;
    va_end(args);
}

static int summary_by_place(const void *a, const void *b)
{
    const struct mt_sentence *x = a, *y = b;
    if (x->look != y->look)
        return y->look - x->look;
    return x->place != y->place ? x->place - y->place : x->number < y->number ? -1 : x->number > y->number;
}

/* ---- kernels ---- */

/* Of equal ones the page, whose kernels are in this order, names the first one. */
static int summary_first(struct mt_summary *s)
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

static int summary_rank(struct mt_summary *s)
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
static struct total summary_totals(const struct mt_summary *s, struct total *by)
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

static void summary_kernels(struct mt_summary *s, const struct total *by, const struct total *all)
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
        mt_summary_say(s, 30, 0, "The program, %s, loads %s and stores %s in %s.", name ? name : "?",
                       mt_number_bytes(t->v.load).text, mt_number_bytes(t->v.store).text,
                       mt_number_many(summary_actors(s->r->comm), "thread", "threads").text);
    else if (n == 1)
        mt_summary_say(s, 30, 0, "One kernel, %s, moves all bytes: %s loaded, %s stored in %s.",
                       name ? name : "?", mt_number_bytes(t->v.load).text, mt_number_bytes(t->v.store).text,
                       mt_number_many(t->launches, "launch", "launches").text);
    else
        mt_summary_say(s, 30, 0, "%s moves most: %s, %s of all bytes, in %s of %s.", name ? name : "?",
                       mt_number_bytes(t->v.load + t->v.store).text,
                       mt_number_percent(t->v.load + t->v.store, moved).text,
                       mt_number_count(t->launches).text,
                       mt_number_many(all->launches, "launch", "launches").text);
    free(name);
}

/* ---- transfers ---- */

/* More bytes, or as many and earlier. */
static int summary_before(const struct mt_summary *s, const struct mt_sent *a, const struct mt_sent *b)
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
static int summary_flow(const struct mt_summary *s, struct flow *f)
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
static void summary_senders(const struct mt_summary *s, const struct total *all, char *out, size_t room)
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
                               at ? "" : " were last written", mt_sender_words[i][mt_of_threads]);
    }
}

static void summary_transfers(struct mt_summary *s, const struct total *all)
{
    static const char *const nobody[2][2][2] = {
        {{"another CTA or an earlier launch", "another thread"}, {"an earlier launch", "an earlier run"}},
        {{"another CTA", "another thread"},
         {"another CTA of an earlier launch", "another thread of an earlier program"}}};
    const struct mt_comm_options *o = &s->r->comm->options;
    char parts[400];
    struct flow f;
    if (summary_flow(s, &f) != 0) {
        s->failed = 1;
        return;
    }
    if (!all->v.comm_load) {
        mt_summary_say(s, 40, 0, MT_EITHER("No CTA loads what %s wrote%s", "No thread loads what %s wrote%s"),
                       nobody[o->local != 0][o->strict != 0][mt_of_threads],
                       f.from_host ? ": all that has a writer came from the host." : ".");
    } else {
        char *from = mt_kernel_short(f.pairs ? s->kernels[f.top.src] : "");
        char *to = mt_kernel_short(f.pairs ? s->kernels[f.top.dst] : "");
        summary_senders(s, all, parts, sizeof parts);
        mt_summary_say(
            s, 40, 0,
            MT_EITHER("Of what CTAs load, %s%s%s%s%s%s%s.", "Of what threads load, %s%s%s%s%s%s%s."), parts,
            f.pairs > 1 ? "; most of it goes from "
            : f.pairs   ? "; it goes from "
                        : "",
            from ? from : "?", f.pairs ? " to " : "", to ? to : "?", f.pairs > 1 ? ": " : "",
            f.pairs > 1 ? mt_number_bytes(f.top.bytes).text : "");
        free(from);
        free(to);
    }
    if (o->host && f.to_host && f.from_host)
        mt_summary_say(s, 40, 0, "Host code loads %s that CTAs wrote; CTAs load %s that the host wrote.",
                       mt_number_bytes(f.to_host).text, mt_number_bytes(f.from_host).text);
    else if (o->host && f.to_host)
        mt_summary_say(s, 40, 0, "Host code loads %s that CTAs wrote.", mt_number_bytes(f.to_host).text);
}

/* ---- samples ---- */

static void summary_sample(struct mt_summary *s, const struct mt_estimates *estimates, const struct total *by)
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
    mt_summary_say(
        s, 150, 1,
        "A sample: %s of %s CTAs of %s are traced; all of them would load about %s and store %s. No other "
        "figure is scaled, and what a CTA read of one that is not traced has an earlier sender, or none.",
        mt_number_count(top->traced_ctas).text, mt_number_count(top->ctas).text, kernel ? kernel : "?",
        mt_number_bytes(mt_estimate(sum.v.load, top->ctas, top->traced_ctas)).text,
        mt_number_bytes(mt_estimate(sum.v.store, top->ctas, top->traced_ctas)).text);
    free(kernel);
}

/* ---- what should not be ---- */

static void summary_finding(void *arg, int look, const char *sentence)
{
    mt_summary_say(arg, 160, look, "%s", sentence);
}

static void summary_onchip(struct mt_summary *s)
{
    if (!s->r->onchip)
        return;
    mt_hazards_sentence(s);
    mt_banks_sentence(s);
}

static void summary_all(struct mt_summary *s, const struct mt_estimates *estimates)
{
    struct total *by = calloc(s->nkernels + 1, sizeof *by);
    if (!by) {
        s->failed = 1;
        return;
    }
    struct total all = summary_totals(s, by);
    summary_kernels(s, by, &all);
    if (all.launches)
        summary_transfers(s, &all);
    mt_locality_sentences(s);
    summary_onchip(s);
    mt_placement_sentence(s);
    summary_sample(s, estimates, by);
    free(by);
}

static void summary_make(struct mt_summary *s, const struct mt_estimates *estimates)
{
    const struct mt_comm *c = s->r->comm;
    if (!s->selected && !c->host_accesses) {
        mt_summary_say(s, 0, 0,
                       MT_EITHER("No launch is in this trace, or filters left none.",
                                 "No run is in this trace, or filters left none."));
        mt_devices_sentence(s);
    } else if (!c->records && !c->host_accesses) {
        mt_summary_say(s, 0, 0,
                       MT_EITHER("No access of the traced launches %swas recorded: their kernels touch no "
                                 "global memory, or filters left nothing.",
                                 "No access of the traced runs %swas recorded: the program touches no "
                                 "memory, or filters left nothing."),
                       s->r->onchip && s->r->onchip->nplaces ? "to global memory " : "");
        summary_onchip(s);
    } else {
        summary_all(s, estimates);
    }
}

int mt_summary_write(FILE *f, const struct mt_comm_result *r, const struct mt_estimates *estimates,
                     const struct mt_findings *findings)
{
    struct mt_summary s = {.r = r};
    if (summary_rank(&s) != 0)
        s.failed = 1;
    else
        summary_make(&s, estimates);
    s.failed |= mt_findings_summary(findings, summary_finding, &s) != 0;
    if (s.n)
        qsort(s.list, s.n, sizeof *s.list, summary_by_place);
    for (size_t i = 0; i < s.n; i++) {
        if (!s.failed) {
            fputs(s.list[i].look ? "! " : "- ", f);
            mt_text_put(f, s.list[i].text);
            fputc('\n', f);
        }
        free(s.list[i].text);
    }
    free(s.list);
    free(s.rank);
    free(s.first);
    free(s.kernels);
    return s.failed ? -1 : 0;
}
