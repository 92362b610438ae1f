/* See findings.h. */
#include "findings.h"
#include "memtrace/grow.h"
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
    d = d ? d : strcmp(findings_text(a->at), findings_text(b->at));
    return d ? d : strcmp(findings_text(a->op), findings_text(b->op));
}

static const char *findings_after_number(const char *s)
{
    return strncmp(s, "0x", 2) == 0 ? s + 2 + strspn(s + 2, "0123456789abcdef") : s + strspn(s, "0123456789");
}

/* The same but for its numbers? Those are of a lane, a mask, an address. */
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

/* Of a kernel as a whole: one line may have several reasons. */
static int findings_is_of_kernel(const struct mt_finding *x)
{
    return mt_finding_rules[x->kind].group == MT_FINDING_SYNC;
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
    if (mt_source_processes(s) > 1) /* none has it all */
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
    into->count += x->count;
    if (!x->launch)
        into->launches += x->launches;
    else if (x->launch != into->launch)
        into->launches++;
    into->launch = x->launch;
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
    return findings_own(f, &s->file) | findings_own(f, &s->at) | findings_own(f, &s->op);
}

static int findings_own_alloc(struct mt_findings *f, const struct mt_alloc_event **alloc)
{
    struct mt_alloc_event a, *copy = NULL;
    if (!*alloc)
        return 0;
    a = **alloc;
    a.callers = "";
    if (mt_grow(&f->texts, &f->text_room, f->ntexts + 1, sizeof *f->texts) == 0)
        copy = malloc(sizeof *copy);
    if (!copy)
        return -1;
    f->texts[f->ntexts++] = (char *)copy;
    int rc = findings_own(f, &a.kind) | findings_own(f, &a.name) | findings_own(f, &a.file) |
             findings_own(f, &a.at);
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
        rc |=
            findings_own_side(f, &x.here) | findings_own_side(f, &x.other) | findings_own_alloc(f, &x.alloc);
        x.launch = 0; /* they are counted */
        rc = rc == 0 ? mt_findings_add(f, &x) : -1;
    }
    f->ordered += from->ordered;
    f->unjudged += from->unjudged;
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
