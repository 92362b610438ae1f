/* List of findings, and the findings that the runtime and other analyses provide. */
#define _GNU_SOURCE

#include "findings.h"
#include "memtrace/grow.h"
#include "analysis/base/pairmap.h"
#include "memtrace/order.h"
#include "memtrace/record.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct mt_finding_rule mt_finding_rules[MT_FINDING_KINDS] = {
#define FINDING(id, word, level, group, rule)                                                                \
    [MT_FINDING_OF_##id] = {word, rule, MT_FINDING_##level, MT_FINDING_##group},
#include "format/kinds.def"
#undef FINDING
};
const char *const mt_finding_groups[MT_FINDING_GROUPS + 1] = {
    [MT_FINDING_MEMORY] = "memory", [MT_FINDING_CALLS] = "calls", [MT_FINDING_INIT] = "init",
    [MT_FINDING_RACE] = "race",     [MT_FINDING_SYNC] = "sync",   [MT_FINDING_USE] = "use",
};
const char *const mt_finding_levels[] = {"error", "warning", "hint"};

static const char *findings_text(const char *s)
{
    return s ? s : "";
}

static int findings_side_order(const struct mt_finding_side *a, const struct mt_finding_side *b)
{
    int d = strcmp(findings_text(a->file), findings_text(b->file));
    d = d ? d : (a->line > b->line) - (a->line < b->line);
    if (!d && !*findings_text(a->file)) /* a line may have several instructions */
        d = strcmp(findings_text(a->at), findings_text(b->at));
    return d ? d : strcmp(findings_text(a->op), findings_text(b->op));
}

static const char *findings_after_number(const char *s)
{
    return strncmp(s, "0x", 2) == 0 ? s + 2 + strspn(s + 2, "0123456789abcdef") : s + strspn(s, "0123456789");
}

/* Compares texts except for their numbers, which belong to a lane, a mask or an address. */
static int findings_words_order(const char *a, const char *b)
{
    a = findings_after_number(a);
    b = findings_after_number(b);
    while (*a && *a == *b) {
        a = findings_after_number(a + 1);
        b = findings_after_number(b + 1);
    }
    return (unsigned char)*a - (unsigned char)*b;
}

/* Returns 1 for a finding about a whole kernel: one line may have several reasons. */
static int findings_is_of_kernel(const struct mt_finding *x)
{
    return mt_finding_rules[x->kind].group == MT_FINDING_SYNC || x->kind == MT_FINDING_OF_SAME_WORD;
}

static int findings_is_of_ctas(const struct mt_finding *x)
{
    return x->kind == MT_FINDING_OF_GLOBAL_RACE && memcmp(x->here.cta, x->other.cta, sizeof x->here.cta) != 0;
}

static int findings_order(const void *x, const void *y)
{
    const struct mt_finding *a = x, *b = y;
    int d = (int)mt_finding_rules[a->kind].level - (int)mt_finding_rules[b->kind].level;
    d = d ? d : findings_side_order(&a->here, &b->here);
    d = d ? d : (int)a->kind - (int)b->kind;
    d = d ? d : strcmp(findings_text(a->kernel), findings_text(b->kernel));
    d = d ? d : findings_side_order(&a->other, &b->other);
    d = d ? d : findings_is_of_ctas(a) - findings_is_of_ctas(b);
    d = d ? d : strcmp(findings_text(a->other_kernel), findings_text(b->other_kernel));
    d = d ? d : strcmp(findings_text(a->call), findings_text(b->call));
    if (!d && findings_is_of_kernel(a))
        d = findings_words_order(findings_text(a->words), findings_text(b->words));
    if (!d && a->kind == MT_FINDING_OF_LEAK) /* blocks are told apart by who asked for them */
        d = strcmp(findings_text(a->here.stack), findings_text(b->here.stack));
    return d ? d : strcmp(findings_text(a->error), findings_text(b->error));
}

static int findings_alloc_order(const struct mt_alloc_event *a, const struct mt_alloc_event *b)
{
    if (!a || !b)
        return !b - !a;
    int d = strcmp(a->file, b->file);
    d = d ? d : (a->line > b->line) - (a->line < b->line);
    d = d ? d : strcmp(findings_text(a->at), findings_text(b->at));
    return d ? d : strcmp(a->name, b->name);
}

static int findings_place_order(const void *x, const void *y)
{
    const struct mt_finding *a = x, *b = y;
    int d = findings_order(a, b);
    return d ? d : findings_alloc_order(a->alloc, b->alloc);
}

static int findings_whole_order(const void *x, const void *y)
{
    const struct mt_finding *a = x, *b = y;
    int d = findings_place_order(a, b);
    return d ? d : (a->number > b->number) - (a->number < b->number);
}

static size_t findings_fullness(const struct mt_companion *c)
{
    size_t freed = 0;
    for (size_t i = 0; c && i < c->nallocs; i++)
        freed += c->allocs[i].free_seq != MT_SEQ_NONE;
    return c ? 1 + c->ncopies + c->norders + c->nallocs + freed : 0;
}

const struct mt_companion *mt_findings_companion(const struct mt_findings *f, const struct mt_source *s)
{
    const struct mt_companion *best = f->beside;
    if (mt_source_processes(s) > 1) /* no companion file has everything */
        return NULL;
    for (size_t i = 0; i < mt_source_inputs(s); i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        best = findings_fullness(c) > findings_fullness(best) ? c : best;
    }
    return best;
}

void mt_findings_beside(struct mt_findings *f, const struct mt_source *s)
{
    char path[PATH_MAX];
    struct mt_error err;
    for (size_t i = 0; i < mt_source_inputs(s) && mt_source_processes(s) == 1; i++) {
        const struct mt_companion *own = mt_source_companion(s, i);
        struct stat st;
        int n = snprintf(path, sizeof path, "%s.meta", mt_source_path(s, i));
        if (n >= (int)sizeof path || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        struct mt_companion *c = mt_companion_load(path, &err), *worse = c;
        if (c && own && c->pid == own->pid && c->start_ns == own->start_ns &&
            findings_fullness(c) > findings_fullness(f->beside)) {
            worse = f->beside;
            f->beside = c;
        }
        if (worse)
            mt_companion_free(worse);
    }
}

int mt_findings_add(struct mt_findings *f, const struct mt_finding *x)
{
    if (mt_grow(&f->list, &f->room, f->count + 1, sizeof *f->list) != 0)
        return -1;
    f->list[f->count] = *x;
    f->list[f->count].number = f->count;
    f->count++;
    return 0;
}

static void findings_merge(struct mt_finding *into, const struct mt_finding *x)
{
    if (x->kind != MT_FINDING_OF_UNORDERED)
        into->count += x->count;
    else if (x->count > into->count) /* bytes, mostly the same ones */
        into->count = x->count;
    into->total += x->total;
    if (!x->launch)
        into->launches += x->launches;
    else if (x->launch != into->launch)
        into->launches++;
    into->launch = x->launch;
}

static int findings_larger(const void *x, const void *y)
{
    const struct mt_finding *a = x, *b = y;
    return a->total != b->total ? (a->total < b->total ? 1 : -1) : findings_whole_order(a, b);
}

/* Puts the leaks, among themselves, into the order of their bytes, most first. */
static void findings_leaks_by_bytes(struct mt_findings *f)
{
    struct mt_finding *leaks = malloc((f->count + 1) * sizeof *leaks);
    size_t n = 0;
    for (size_t i = 0; leaks && i < f->count; i++)
        if (f->list[i].kind == MT_FINDING_OF_LEAK)
            leaks[n++] = f->list[i];
    if (n)
        qsort(leaks, n, sizeof *leaks, findings_larger);
    for (size_t i = 0, k = 0; i < f->count && k < n; i++)
        if (f->list[i].kind == MT_FINDING_OF_LEAK)
            f->list[i] = leaks[k++];
    free(leaks);
}

void mt_findings_finish(struct mt_findings *f)
{
    size_t n = 0;
    if (f->count)
        qsort(f->list, f->count, sizeof *f->list, findings_whole_order);
    for (size_t i = 0; i < f->count; i++)
        if (n && findings_place_order(&f->list[n - 1], &f->list[i]) == 0) {
            findings_merge(&f->list[n - 1], &f->list[i]);
        } else {
            f->list[n++] = f->list[i];
        }
    f->count = n;
    findings_leaks_by_bytes(f);
}

const char *mt_findings_text(struct mt_findings *f, const char *text, size_t n)
{
    char *copy =
        mt_grow(&f->texts, &f->text_room, f->ntexts + 1, sizeof *f->texts) == 0 ? malloc(n + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return f->texts[f->ntexts++] = copy;
}

static int findings_own(struct mt_findings *f, const char **text)
{
    return !*text || (*text = mt_findings_text(f, *text, strlen(*text))) ? 0 : -1;
}

static int findings_own_side(struct mt_findings *f, struct mt_finding_side *s)
{
    s->callers = NULL;
    return findings_own(f, &s->stack) | findings_own(f, &s->file) | findings_own(f, &s->at) |
           findings_own(f, &s->op);
}

static int findings_own_alloc(struct mt_findings *f, const struct mt_alloc_event **alloc)
{
    struct mt_alloc_event a, *copy = NULL;
    if (!*alloc)
        return 0;
    a = **alloc;
    if (!a.stack)
        a.callers = "";
    if (mt_grow(&f->texts, &f->text_room, f->ntexts + 1, sizeof *f->texts) == 0)
        copy = malloc(sizeof *copy);
    if (!copy)
        return -1;
    f->texts[f->ntexts++] = (char *)copy;
    int rc = findings_own(f, &a.kind) | findings_own(f, &a.name) | findings_own(f, &a.file) |
             findings_own(f, &a.at) | findings_own(f, &a.callers);
    *copy = a;
    *alloc = copy;
    return rc;
}

int mt_findings_take(struct mt_findings *f, const struct mt_findings *from)
{
    int rc = 0;
    for (size_t i = 0; i < from->count && rc == 0; i++) {
        struct mt_finding x = from->list[i];
        const char **texts[] = {&x.kernel, &x.var, &x.other_kernel, &x.side, &x.words, &x.call, &x.error};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            rc |= findings_own(f, texts[k]);
        rc |= findings_own_side(f, &x.here) | findings_own_side(f, &x.other) |
              findings_own_side(f, &x.launched) | findings_own_alloc(f, &x.alloc);
        x.launch = 0; /* `launches` is counted already */
        rc = rc == 0 ? mt_findings_add(f, &x) : -1;
    }
    f->unjudged += from->unjudged;
    f->unraced += from->unraced;
    f->holes |= from->holes;
    f->uncompared += from->uncompared;
    return rc;
}

void mt_findings_free(struct mt_findings *f)
{
    for (size_t i = 0; i < f->ntexts; i++)
        free(f->texts[i]);
    free((void *)f->texts);
    if (f->beside)
        mt_companion_free(f->beside);
    free(f->list);
    memset(f, 0, sizeof *f);
}

size_t mt_findings_of(const struct mt_findings *f, enum mt_finding_level level)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        n += mt_finding_rules[f->list[i].kind].level == level;
    return n;
}

/* TINY: bytes of a small copy. Reported are MANY small copies at one line, and HELD unchanged bytes. */
enum { TINY = 4096, MANY = 100, HELD = 65536 };

static const char *const ops[] = {"load", "store", "atomic", "access"};

/* ---- bad accesses ---- */

/* Texts of runtimes that did not write `kind`. */
static const struct {
    const char *why, *side; /* NULL: any side */
    enum mt_finding_kind kind;
} whys[] = {
    {"illegal", "freed", MT_FINDING_OF_FREED},
    {"illegal", NULL, MT_FINDING_OF_BOUNDS},
    {"misaligned", NULL, MT_FINDING_OF_MISALIGNED},
    {"mask", NULL, MT_FINDING_OF_MASK},
    {"barrier", NULL, MT_FINDING_OF_BARRIER},
    {"stack", NULL, MT_FINDING_OF_STACK},
    {"heap", NULL, MT_FINDING_OF_HEAP},
};
enum { WHYS = sizeof whys / sizeof *whys };

MT_ORDER_1(collect_by_id, struct mt_alloc_event, id)

static const struct mt_alloc_event *collect_alloc(struct mt_source *s, uint64_t id)
{
    size_t n;
    struct mt_alloc_event key = {.id = id};
    const struct mt_alloc_event *allocs = mt_source_allocs(s, &n);
    return n && id != MT_SEQ_NONE ? bsearch(&key, allocs, n, sizeof *allocs, collect_by_id) : NULL;
}

/* Returns the text that an older runtime used for this kind only. */
static const char *collect_side(const struct mt_check_event *e)
{
    return *e->side ? e->side : strstr(e->near, "freed memory") ? "freed" : "";
}

/* Returns the kind of an event, or MT_FINDING_KINDS if it is unknown here. */
static enum mt_finding_kind collect_kind(const struct mt_check_event *e)
{
    unsigned kind = 0;
    size_t i = 0;
    while (kind < MT_FINDING_KINDS && strcmp(mt_finding_rules[kind].word, e->kind) != 0)
        kind++;
    if (*e->kind)
        return kind;
    while (i < WHYS &&
           (strcmp(whys[i].why, e->why) != 0 || (whys[i].side && strcmp(whys[i].side, collect_side(e)) != 0)))
        i++;
    return i < WHYS ? whys[i].kind : MT_FINDING_KINDS;
}

void mt_finding_launched(struct mt_finding *x, const struct mt_launch_event *l)
{
    if (l)
        x->launched = (struct mt_finding_side){
            .file = l->file, .line = l->line, .at = l->at, .callers = l->callers, .op = ""};
}

/* Returns the launch with this number of its call, or NULL. */
static const struct mt_launch_event *collect_launch_of(const struct mt_companion *c, uint64_t seq)
{
    for (size_t i = 0; i < c->nlaunches; i++)
        if (c->launches[i].seq == seq)
            return &c->launches[i];
    return NULL;
}

static int collect_check(struct mt_findings *f, struct mt_source *s, const struct mt_companion *c,
                         const struct mt_check_event *e)
{
    const struct mt_site_event *site = e->site ? mt_companion_site(c, e->site) : NULL;
    enum mt_finding_kind kind = collect_kind(e);
    if (kind == MT_FINDING_KINDS)
        return 0;
    struct mt_finding x = {.kind = kind,
                           .kernel = e->kernel,
                           .var = site ? site->var : "",
                           .here = {.file = e->file,
                                    .at = site ? site->at : "",
                                    .stack = site ? site->inlined : NULL,
                                    .op = e->op,
                                    .line = e->line,
                                    .cta = {e->cta[0], e->cta[1], e->cta[2]},
                                    .thread = {e->thread[0], e->thread[1], e->thread[2]},
                                    .known = 2},
                           .size = e->size,
                           .count = e->count,
                           .launches = 1,
                           .launch = e->launch + 1,
                           .alloc = collect_alloc(s, e->alloc),
                           .side = collect_side(e),
                           .distance = e->distance,
                           .words = e->near};
    mt_finding_launched(&x, collect_launch_of(c, e->launch));
    return mt_findings_add(f, &x);
}

/* ---- calls and launches ---- */

static int collect_failed(struct mt_findings *f, struct mt_source *s, const struct mt_failed_event *e)
{
    struct mt_finding x = {.kind = *e->kernel                ? MT_FINDING_OF_FAILED_LAUNCH
                                   : e->freed != MT_SEQ_NONE ? MT_FINDING_OF_DOUBLE_FREE
                                                             : MT_FINDING_OF_FAILED_CALL,
                           .kernel = e->kernel,
                           .here = {.file = e->file, .at = e->at, .callers = e->callers, .line = e->line},
                           .alloc = collect_alloc(s, e->freed),
                           .size = e->code,
                           .count = e->count,
                           .words = e->why,
                           .call = e->call,
                           .error = e->error};
    return mt_findings_add(f, &x);
}

static int collect_launch(struct mt_findings *f, const struct mt_launch_event *l)
{
    struct mt_finding x = {.kind = MT_FINDING_OF_FAILED_LAUNCH,
                           .kernel = l->kernel,
                           .here = {.file = l->file, .line = l->line, .at = l->at, .callers = l->callers},
                           .size = (uint64_t)l->status,
                           .count = 1,
                           .launches = 1};
    return mt_findings_add(f, &x);
}

/* Numbers seen already: events of the process are in each companion file, and a failed launch whose bad
 * accesses are known is not reported again. */
enum { SEEN_EVENT, SEEN_LAUNCH };

static int collect_companion(struct mt_findings *f, struct mt_source *s, const struct mt_companion *c,
                             size_t input, struct mt_pairmap *seen)
{
    int rc = 0;
    for (size_t i = 0; i < c->nchecks && rc == 0; i++) {
        const struct mt_check_event *e = &c->checks[i];
        const uint64_t *first = mt_pairmap_get(seen, e->seq, SEEN_EVENT, input);
        if (!first || !mt_pairmap_get(seen, e->launch, SEEN_LAUNCH, input))
            return -1;
        first = mt_pairmap_find(seen, e->seq, SEEN_EVENT);
        rc = *first == input ? collect_check(f, s, c, e) : 0;
    }
    for (size_t i = 0; i < c->nfailed && rc == 0; i++) {
        const uint64_t *first = mt_pairmap_get(seen, c->failed[i].seq, SEEN_EVENT, input);
        rc = !first || !mt_pairmap_get(seen, c->failed[i].launch, SEEN_LAUNCH, input) ? -1 : 0;
        first = rc == 0 ? mt_pairmap_find(seen, c->failed[i].seq, SEEN_EVENT) : NULL;
        rc = rc == 0 && *first == input ? collect_failed(f, s, &c->failed[i]) : rc;
    }
    return rc;
}

/* A launch of a stream without a trace is in each companion. */
static int collect_launches(struct mt_findings *f, const struct mt_companion *c, size_t input,
                            struct mt_pairmap *seen)
{
    int rc = 0;
    for (size_t i = 0; i < c->nlaunches && rc == 0; i++) {
        const struct mt_launch_event *l = &c->launches[i];
        if (!l->status || mt_pairmap_find(seen, l->seq, SEEN_LAUNCH))
            continue;
        const uint64_t *first = mt_pairmap_get(seen, l->seq, SEEN_EVENT, input);
        rc = !first ? -1 : *first == input ? collect_launch(f, l) : 0;
    }
    return rc;
}

/* ---- copies ---- */

MT_ORDER_POINTED(collect_copy_order, struct mt_copy_event,
                 MT_ORDER_TEXT(x->file, y->file) MT_ORDER_DIFFER(x, y, line))

/* Adds a finding for `n` copies at one line with `bytes` bytes in total; `of` copies are similar. */
static int collect_copies_at(struct mt_findings *f, enum mt_finding_kind kind, const char *file,
                             uint64_t line, uint64_t n, uint64_t bytes, uint64_t of)
{
    struct mt_finding x = {
        .kind = kind, .here = {.file = file, .line = line}, .size = bytes, .count = n, .launches = of};
    return mt_findings_add(f, &x);
}

static uint64_t collect_bytes(const struct mt_copy_event *c)
{
    return c->width * c->height;
}

/* Adds findings for the copies list[n] of one line. held: as collect_held sets it for each of `copies`. */
static int collect_copies_of(struct mt_findings *f, const struct mt_copy_event *const *list, size_t n,
                             const struct mt_copy_event *copies, const unsigned char *held)
{
    uint64_t tiny = 0, tiny_bytes = 0, same = 0, same_bytes = 0;
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t bytes = collect_bytes(list[i]);
        tiny += bytes < TINY;
        tiny_bytes += bytes < TINY ? bytes : 0;
        same += held[list[i] - copies];
        same_bytes += held[list[i] - copies] ? bytes : 0;
    }
    if (tiny >= MANY)
        rc = collect_copies_at(f, MT_FINDING_OF_TINY_COPIES, list[0]->file, list[0]->line, tiny, tiny_bytes,
                               0);
    if (rc == 0 && same_bytes >= HELD)
        rc = collect_copies_at(f, MT_FINDING_OF_UNCHANGED_COPY, list[0]->file, list[0]->line, same,
                               same_bytes, n);
    return rc;
}

/* Marks copies to a device whose destination was already filled with the same contents by an earlier copy or
 * fill. Changes of host memory between them are not known. Returns -1 without memory. */
static int collect_held(const struct mt_companion *c, unsigned char *held)
{
    struct mt_pairmap seen = {0};
    int rc = 0;
    for (size_t i = 0; i < c->ncopies && rc == 0; i++) {
        uint64_t *before = mt_pairmap_get(&seen, c->copies[i].dst, 0, 0);
        if (before)
            held[i] = c->copies[i].unchanged && c->copies[i].kind != MT_COPY_D2H &&
                      *before >= collect_bytes(&c->copies[i]);
        if (before && *before < collect_bytes(&c->copies[i]))
            *before = collect_bytes(&c->copies[i]);
        rc = before ? 0 : -1;
    }
    mt_pairmap_free(&seen);
    return rc;
}

static int collect_copies(struct mt_findings *f, const struct mt_companion *c)
{
    const struct mt_copy_event **list = malloc((c->ncopies + 1) * sizeof *list);
    unsigned char *held = calloc(c->ncopies + 1, 1);
    size_t n = 0;
    int rc = list && held ? collect_held(c, held) : -1;
    for (size_t i = 0; rc == 0 && i < c->ncopies; i++)
        if (c->copies[i].kind != MT_COPY_H2H && c->copies[i].kind != MT_COPY_SET && c->copies[i].file &&
            *c->copies[i].file)
            list[n++] = &c->copies[i];
    if (n)
        qsort(list, n, sizeof *list, collect_copy_order);
    for (size_t i = 0, j; i < n && rc == 0; i = j) {
        for (j = i + 1; j < n && collect_copy_order(&list[i], &list[j]) == 0;)
            j++;
        rc = collect_copies_of(f, list + i, j - i, c->copies, held);
    }
    free(held);
    free(list);
    return rc;
}

/* Adds unchanged copies in host code, which the runtime has compared. */
static int collect_copied(struct mt_findings *f, const struct mt_companion *c)
{
    int rc = 0;
    for (size_t i = 0; i < c->ncopied && rc == 0; i++) {
        const struct mt_copied_event *e = &c->copied[i];
        const struct mt_site_event *site = mt_companion_site(c, e->site);
        if (e->same_bytes >= HELD && site && *site->file)
            rc = collect_copies_at(f, MT_FINDING_OF_UNCHANGED_COPY, site->file, site->line, e->same_calls,
                                   e->same_bytes, e->calls);
    }
    return rc;
}

int mt_check_events(struct mt_findings *f, struct mt_source *s)
{
    struct mt_pairmap seen = {0};
    const struct mt_companion *fullest = mt_findings_companion(f, s), *c;
    size_t n = mt_source_inputs(s);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        if ((c = mt_source_companion(s, i)))
            rc = collect_companion(f, s, c, i, &seen);
    if (rc == 0 && f->beside)
        rc = collect_companion(f, s, f->beside, n, &seen);
    for (size_t i = 0; i < n && rc == 0; i++)
        if ((c = mt_source_companion(s, i)))
            rc = collect_launches(f, c, i, &seen) != 0 ? -1 : collect_copied(f, c);
    mt_pairmap_free(&seen);
    return rc == 0 && fullest ? collect_copies(f, fullest) : rc;
}

/* ---- races ---- */

static struct mt_finding_side collect_side_of(const struct mt_site_event *site, uint32_t type)
{
    return (struct mt_finding_side){.file = site ? site->file : "",
                                    .at = site ? site->at : "",
                                    .stack = site ? site->inlined : NULL,
                                    .line = site ? site->line : 0,
                                    .op = site && *site->op ? site->op : ops[type & 3]};
}

static void collect_cta(struct mt_finding_side *side, uint64_t cta)
{
    side->cta[0] = cta >> 32;
    side->cta[1] = cta >> 16 & 0xffff;
    side->cta[2] = cta & 0xffff;
    side->known = 1;
}

static void collect_thread(struct mt_finding_side *side, const struct mt_launch_event *l, uint32_t thread)
{
    if (!l || !l->block[0] || !l->block[1])
        return;
    side->thread[0] = thread % l->block[0];
    side->thread[1] = thread / l->block[0] % l->block[1];
    side->thread[2] = thread / l->block[0] / l->block[1];
    side->known = 2;
}

static const struct mt_alloc_event *collect_buffer(struct mt_buffers *buffers,
                                                   const struct mt_launch_event *l, uint64_t address)
{
    if (!l)
        return NULL;
    mt_buffers_launch(buffers, l->seq);
    return mt_buffers_find(buffers, address);
}

/* The store comes first: RAW and WAR of the same pair are one finding. Of two stores, or none, the one of the
 * higher line. */
static int collect_other_first(const struct mt_hazard *h, const struct mt_site_event *const *site)
{
    int first = h->type[0] == MT_STORE, second = h->type[1] == MT_STORE;
    if (first != second)
        return first;
    int d = site[0] && site[1] ? strcmp(site[0]->file, site[1]->file) : 0;
    return d > 0 || (d == 0 && site[0] && site[1] && site[0]->line > site[1]->line);
}

static struct mt_finding collect_hazard(const struct mt_hazard *h, const struct mt_site_event *const *site,
                                        struct mt_buffers *buffers)
{
    int global = h->space == MT_IN_GLOBAL, here = !collect_other_first(h, site);
    struct mt_finding y = {.kind = global ? MT_FINDING_OF_GLOBAL_RACE : MT_FINDING_OF_SHARED_RACE,
                           .kernel = h->kernel,
                           .var = global ? "" : mt_onchip_variable(site[1]),
                           .here = collect_side_of(site[here], h->type[here]),
                           .other = collect_side_of(site[!here], h->type[!here]),
                           .alloc = global ? collect_buffer(buffers, h->event, h->address) : NULL,
                           .narrow = h->narrow};
    mt_finding_launched(&y, h->event);
    collect_cta(&y.here, h->cta[here]);
    collect_cta(&y.other, h->cta[!here]);
    if (h->known) {
        collect_thread(&y.here, h->event, h->thread[here]);
        collect_thread(&y.other, h->event, h->thread[!here]);
    }
    return y;
}

int mt_check_races(struct mt_findings *f, const struct mt_hazards *x, const struct mt_hazards *fenced,
                   const struct mt_source *s, struct mt_buffers *buffers)
{
    f->unraced += x->unjudged;
    for (size_t i = 0; i < x->ncells; i++) {
        const struct mt_hazard_share *share = &x->cells[i];
        const struct mt_hazard *h = &x->list[share->hazard];
        const struct mt_site_event *site[] = {mt_onchip_site(s, h->input, h->site[0]),
                                              mt_onchip_site(s, h->input, h->site[1])};
        struct mt_finding y = collect_hazard(h, site, buffers);
        y.count = share->launch == h->launch ? h->words : 0; /* the words of all launches, once */
        y.unfenced = !h->narrow && !mt_hazards_has(fenced, h) ? 1 + x->strict : 0;
        y.launches = 1;
        y.launch = (uint64_t)share->launch + 1;
        if (mt_findings_add(f, &y) != 0)
            return -1;
    }
    return 0;
}

static int collect_same_place(const struct mt_finding_side *a, const struct mt_finding_side *b)
{
    return a->line == b->line && strcmp(a->file, b->file) == 0 && strcmp(a->at, b->at) == 0;
}

/* Returns 1 if one of the races list[n] of f, in the same memory, shows that this read may be too early. */
static int collect_reads_early(const struct mt_findings *f, const size_t *list, size_t n,
                               const struct mt_finding *x)
{
    for (size_t i = 0; i < n; i++) {
        const struct mt_finding *y = &f->list[list[i]];
        if ((y->kind == MT_FINDING_OF_GLOBAL_RACE) == (x->alloc != NULL) &&
            strcmp(y->kernel, x->kernel) == 0 &&
            (collect_same_place(&y->here, &x->here) || collect_same_place(&y->other, &x->here)))
            return 1;
    }
    return 0;
}

/* Returns 1 for a read of shared memory that nothing wrote because it is outside of the variable meant: one
 * of list[n] of f. */
static int collect_reads_outside(const struct mt_findings *f, const size_t *list, size_t n,
                                 const struct mt_finding *x)
{
    for (size_t i = 0; !x->alloc && i < n; i++)
        if (strcmp(f->list[list[i]].kernel, x->kernel) == 0 &&
            findings_side_order(&f->list[list[i]].here, &x->here) == 0)
            return 1;
    return 0;
}

/* Appends the numbers of the findings of a kind to list[n]; returns their number. Of uninitialised reads,
 * which are not looked for, there may be a million, one for each word. */
static size_t collect_numbers(const struct mt_findings *f, int kind, size_t *list, size_t n)
{
    for (size_t i = 0; i < f->count; i++)
        if ((int)f->list[i].kind == kind)
            list[n++] = i;
    return n;
}

int mt_check_early(struct mt_findings *f)
{
    size_t n = 0, *list = malloc((f->count + 1) * sizeof *list);
    unsigned char *gone = calloc(f->count + 1, 1);
    int rc = list && gone ? 0 : -1;
    size_t races = rc ? 0 : collect_numbers(f, MT_FINDING_OF_GLOBAL_RACE, list, 0);
    races = rc ? 0 : collect_numbers(f, MT_FINDING_OF_SHARED_RACE, list, races);
    size_t both = rc ? 0 : collect_numbers(f, MT_FINDING_OF_BOUNDS, list, races);
    for (size_t i = 0; rc == 0 && i < f->count; i++)
        gone[i] = f->list[i].kind == MT_FINDING_OF_UNWRITTEN &&
                  (collect_reads_early(f, list, races, &f->list[i]) ||
                   collect_reads_outside(f, list + races, both - races, &f->list[i]));
    for (size_t i = 0; rc == 0 && i < f->count; i++)
        if (!gone[i])
            f->list[n++] = f->list[i];
    f->count = rc == 0 ? n : f->count;
    free(gone);
    free(list);
    return rc;
}
