/* See finding_words.h. */
#define _GNU_SOURCE
#include "finding_words.h"
#include "table.h"
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct words {
    FILE *f;
    char *text;
    size_t size;
};

/* ---- places ---- */

static const char *words_below_here(const char *file)
{
    char here[PATH_MAX];
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    return n > 1 && strncmp(file, here, n) == 0 && file[n] == '/' && file[n + 1] ? file + n + 1 : file;
}

static void words_place(FILE *f, const char *file, uint64_t line, const char *at)
{
    if (file && *file)
        fprintf(f, "%s:%" PRIu64, words_below_here(file), line);
    else
        fputs(at && *at ? at : "?", f);
}

static void words_by(FILE *f, const struct mt_finding_side *s)
{
    if (s->known)
        fprintf(f, "CTA %" PRIu64, s->cta[0]);
    if (s->known && (s->cta[1] || s->cta[2]))
        fprintf(f, ",%" PRIu64 ",%" PRIu64, s->cta[1], s->cta[2]);
    if (s->known == 2)
        fprintf(f, ", thread %" PRIu64, s->thread[0]);
    if (s->known == 2 && (s->thread[1] || s->thread[2]))
        fprintf(f, ",%" PRIu64 ",%" PRIu64, s->thread[1], s->thread[2]);
}

/* "`a` (16384 bytes, app.cu:79)" */
static void words_alloc(FILE *f, const struct mt_alloc_event *a)
{
    if (*a->name)
        fprintf(f, "`%s` (", a->name);
    else
        fputs("an allocation (", f);
    fprintf(f, "%" PRIu64 " byte%s", a->bytes, a->bytes == 1 ? "" : "s");
    if (*a->file) {
        fputs(", ", f);
        words_place(f, a->file, a->line, NULL);
    } else if (a->at && *a->at) {
        fprintf(f, ", %s", a->at);
    }
    fputc(')', f);
}

static void words_many(FILE *f, uint64_t n, const char *one)
{
    fprintf(f, "%" PRIu64 " %s%s", n, one, n == 1 ? "" : one[strlen(one) - 1] == 's' ? "es" : "s");
}

/* ": 3 accesses in 2 launches, first by CTA 31, thread 127" */
static void words_count(FILE *f, const struct mt_finding *x, const char *what)
{
    fputs(": ", f);
    words_many(f, x->count, what);
    if (x->launches > 1) {
        fprintf(f, " in %" PRIu64 " launches", x->launches);
    }
    if (x->here.known) {
        fputs(x->count > 1 ? ", first by " : ", by ", f);
        words_by(f, &x->here);
    }
}

static const char *words_verb(const char *op)
{
    return !op                         ? "accesses"
           : strcmp(op, "load") == 0   ? "reads"
           : strcmp(op, "store") == 0  ? "writes"
           : strcmp(op, "atomic") == 0 ? "updates"
                                       : "accesses";
}

/* "kernel reads 4 bytes through `p`" */
static void words_access(FILE *f, const struct mt_finding *x)
{
    char *kernel = mt_kernel_short(x->kernel);
    fprintf(f, "%s %s ", kernel ? kernel : "?", words_verb(x->here.op));
    words_many(f, x->size, "byte");
    if (x->var && *x->var)
        fprintf(f, " through `%s`", x->var);
    free(kernel);
}

/* ---- kinds ---- */

static void words_beside(FILE *f, const struct mt_finding *x)
{
    if (x->alloc && x->side && (strcmp(x->side, "after") == 0 || strcmp(x->side, "before") == 0)) {
        words_many(f, x->distance, "byte");
        fprintf(f, " %s ", x->side);
        words_alloc(f, x->alloc);
    } else if (x->alloc && x->side && strcmp(x->side, "freed") == 0 && !strstr(x->words, "freed at")) {
        fputs("of ", f);
        words_alloc(f, x->alloc);
        fputs(", which was freed", f);
    } else {
        fputs(x->words ? x->words : "", f);
    }
}

static void words_bad_access(FILE *f, const struct mt_finding *x)
{
    words_access(f, x);
    fputs(x->kind == MT_FINDING_OF_MISALIGNED ? " at an address that its size does not allow, " : ", ", f);
    words_beside(f, x);
    words_count(f, x, "access");
}

static void words_of_kernel(FILE *f, const struct mt_finding *x)
{
    char *kernel = mt_kernel_short(x->kernel);
    fprintf(f, "%s, ", kernel ? kernel : "?");
    words_by(f, &x->here);
    fprintf(f, ": %s", x->words ? x->words : "");
    if (x->count > 1)
        fprintf(f, " (%" PRIu64 " times)", x->count);
    free(kernel);
}

static void words_call(FILE *f, const struct mt_finding *x)
{
    fprintf(f, "%s returned %s", x->call, x->error);
    if (x->words && *x->words)
        fprintf(f, ": %s", x->words);
    if (x->count > 1)
        fprintf(f, " (%" PRIu64 " times)", x->count);
}

static void words_launch(FILE *f, const struct mt_finding *x)
{
    char *kernel = mt_kernel_short(x->kernel);
    fprintf(f, "%s ended with %s", kernel ? kernel : "?", x->error && *x->error ? x->error : "error");
    if (!x->error || !*x->error)
        fprintf(f, " %" PRIu64, x->size);
    if (x->words && *x->words)
        fprintf(f, ": %s", x->words);
    free(kernel);
    if (x->launches > 1)
        fprintf(f, " (%" PRIu64 " launches)", x->launches);
}

static void words_unwritten(FILE *f, const struct mt_finding *x)
{
    words_access(f, x);
    fputs(" of ", f);
    if (x->alloc)
        words_alloc(f, x->alloc);
    else
        fputs("shared memory", f);
    fputs(" that nothing wrote", f);
    if (x->alloc)
        fprintf(f, ", the first at byte %" PRIu64, x->distance);
    words_count(f, x, "word");
}

static void words_unwritten_copy(FILE *f, const struct mt_finding *x)
{
    fputs("a copy to the host takes ", f);
    words_many(f, x->count, "byte");
    fputs(" that nothing wrote from ", f);
    words_alloc(f, x->alloc);
}

static void words_race(FILE *f, const struct mt_finding *x)
{
    char *kernel = mt_kernel_short(x->kernel);
    fprintf(f, "%s %s ", kernel ? kernel : "?", words_verb(x->here.op));
    if (x->var && *x->var)
        fprintf(f, "`%s`", x->var);
    else
        fputs("bytes", f);
    if (x->alloc) {
        fputs(" of ", f);
        words_alloc(f, x->alloc);
    }
    int threads = memcmp(x->here.cta, x->other.cta, sizeof x->here.cta) == 0;
    int own =
        threads && memcmp(x->here.thread, x->other.thread, sizeof x->here.thread) == 0 && x->here.known == 2;
    fprintf(f,
            own       ? " that its own copy %s at "
            : threads ? " that another thread %s at "
                      : " that another CTA %s at ",
            words_verb(x->other.op));
    words_place(f, x->other.file, x->other.line, x->other.at);
    fprintf(f, ", %s: ",
            own       ? "without a wait in between"
            : threads ? "no barrier or wait orders them"
                      : "nothing orders the two");
    words_many(f, x->count, "word");
    if (x->launches > 1)
        fprintf(f, " in %" PRIu64 " launches", x->launches);
    fputs(", first ", f);
    words_by(f, &x->here);
    fputs(" and ", f);
    words_by(f, &x->other);
    free(kernel);
}

static void words_doer(FILE *f, const char *kernel)
{
    char *name = kernel && *kernel && strcmp(kernel, "<fill>") != 0 ? mt_kernel_short(kernel) : NULL;
    fputs(name ? name : kernel && *kernel ? "a fill" : "a copy", f);
    free(name);
}

static void words_unordered(FILE *f, const struct mt_finding *x)
{
    words_doer(f, x->kernel);
    fprintf(f, " %s %s", words_verb(x->here.op), "what ");
    words_doer(f, x->other_kernel);
    if ((x->other.file && *x->other.file) || (x->other.at && *x->other.at)) {
        fputs(" of ", f);
        words_place(f, x->other.file, x->other.line, x->other.at);
    }
    fprintf(f, " %s, and no stream or event orders the two: ", words_verb(x->other.op));
    words_many(f, x->count, "byte");
    if (x->alloc) {
        fputs(" of ", f);
        words_alloc(f, x->alloc);
    }
    if (x->launches > 1)
        fprintf(f, " (%" PRIu64 " times)", x->launches);
}

static void words_use(FILE *f, const struct mt_finding *x)
{
    static const char *const what[MT_FINDING_KINDS] = {
        [MT_FINDING_OF_LEAK] = " is not freed when the program ends",
        [MT_FINDING_OF_UNUSED] = " is never read or written",
        [MT_FINDING_OF_UNREAD] = " is written and never read",
    };
    words_alloc(f, x->alloc);
    fputs(what[x->kind], f);
    if (x->count > 1)
        fprintf(f, ", nor %" PRIu64 " more of this line", x->count - 1);
}

static void words_copies(FILE *f, const struct mt_finding *x)
{
    if (x->kind == MT_FINDING_OF_TINY_COPIES) {
        fprintf(f, "%" PRIu64 " copies", x->count);
        fprintf(f, " of %" PRIu64 " bytes on average: one large one costs less",
                x->size / (x->count ? x->count : 1));
        return;
    }
    if (x->kind == MT_FINDING_OF_UNCHANGED_COPY) {
        fprintf(f, "%" PRIu64 " of %" PRIu64 " copies bring what is there already: %" PRIu64 " bytes in all",
                x->count, x->launches, x->size);
        return;
    }
    fprintf(f, "a copy of %" PRIu64 " bytes to ", x->size);
    words_alloc(f, x->alloc);
    fputs(" is replaced, or freed, before anything reads it", f);
    if (x->count > 1)
        fprintf(f, " (%" PRIu64 " times)", x->count);
}

static void (*const sentences[MT_FINDING_KINDS])(FILE *f, const struct mt_finding *x) = {
    [MT_FINDING_OF_BOUNDS] = words_bad_access,
    [MT_FINDING_OF_MISALIGNED] = words_bad_access,
    [MT_FINDING_OF_FREED] = words_bad_access,
    [MT_FINDING_OF_STACK] = words_of_kernel,
    [MT_FINDING_OF_HEAP] = words_of_kernel,
    [MT_FINDING_OF_DOUBLE_FREE] = words_call,
    [MT_FINDING_OF_FAILED_CALL] = words_call,
    [MT_FINDING_OF_FAILED_LAUNCH] = words_launch,
    [MT_FINDING_OF_UNWRITTEN] = words_unwritten,
    [MT_FINDING_OF_UNWRITTEN_COPY] = words_unwritten_copy,
    [MT_FINDING_OF_SHARED_RACE] = words_race,
    [MT_FINDING_OF_GLOBAL_RACE] = words_race,
    [MT_FINDING_OF_UNORDERED] = words_unordered,
    [MT_FINDING_OF_BARRIER] = words_of_kernel,
    [MT_FINDING_OF_MASK] = words_of_kernel,
    [MT_FINDING_OF_LEAK] = words_use,
    [MT_FINDING_OF_UNUSED] = words_use,
    [MT_FINDING_OF_UNREAD] = words_use,
    [MT_FINDING_OF_UNCHANGED_COPY] = words_copies,
    [MT_FINDING_OF_UNREAD_COPY] = words_copies,
    [MT_FINDING_OF_TINY_COPIES] = words_copies,
};

/* ---- out ---- */

static char *words_end(struct words *w)
{
    if (w->f && fclose(w->f) != 0) {
        free(w->text);
        w->text = NULL;
    }
    return w->text;
}

char *mt_finding_sentence(const struct mt_finding *f)
{
    struct words w = {0};
    if ((w.f = open_memstream(&w.text, &w.size)))
        sentences[f->kind](w.f, f);
    return words_end(&w);
}

char *mt_finding_place(const struct mt_finding_side *s)
{
    struct words w = {0};
    if ((w.f = open_memstream(&w.text, &w.size)))
        words_place(w.f, s->file, s->line, s->at);
    return words_end(&w);
}

/* ---- the first of each kind ---- */

static int words_first(const struct mt_finding *x, size_t more,
                       int (*say)(void *arg, int look, const char *sentence), void *arg)
{
    const struct mt_finding_rule *rule = &mt_finding_rules[x->kind];
    char *place = mt_finding_place(&x->here), *words = mt_finding_sentence(x);
    struct words w = {0};
    if (place && words && (w.f = open_memstream(&w.text, &w.size))) {
        fprintf(w.f, "%s%s%s", rule->word, strcmp(place, "?") == 0 ? "" : " at ",
                strcmp(place, "?") == 0 ? "" : place);
        if (more)
            fprintf(w.f, " (and %zu more)", more);
        fprintf(w.f, ": %s.", words);
    }
    char *text = words_end(&w);
    int rc = text ? say(arg, rule->level != MT_FINDING_HINT, text) : -1;
    free(place);
    free(words);
    free(text);
    return rc;
}

/* Which one of a kind is named: of allocations that with most bytes, else the first. */
static uint64_t words_weight(const struct mt_finding *x)
{
    int use =
        x->kind == MT_FINDING_OF_LEAK || x->kind == MT_FINDING_OF_UNUSED || x->kind == MT_FINDING_OF_UNREAD;
    return use ? x->size : 0;
}

int mt_findings_summary(const struct mt_findings *x, int (*say)(void *arg, int look, const char *sentence),
                        void *arg)
{
    int rc = 0;
    for (int kind = 0; kind < MT_FINDING_KINDS && rc == 0; kind++) {
        const struct mt_finding *first = NULL;
        size_t more = 0;
        for (size_t i = 0; i < x->count; i++) {
            if ((int)x->list[i].kind != kind)
                continue;
            more += first != NULL;
            if (!first || words_weight(&x->list[i]) > words_weight(first))
                first = &x->list[i];
        }
        rc = first ? words_first(first, more, say, arg) : 0;
    }
    return rc;
}
