/* Findings as text for a terminal, as JSON, and as SARIF 2.1.0, which GitHub and editors show at the source
 * line. */
#define _GNU_SOURCE

#include "findings_out.h"
#include "output/text/table.h"
#include "base/text.h"
#include "../text/table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Findings as JSON and as SARIF (OASIS, version 2.1.0) ---- */

/* ---- JSON ---- */

static void json_given(struct mt_json *j, const char *key, const char *value)
{
    if (value && *value)
        mt_json_text(j, key, value);
}

/* ---- call stacks: texts of findings.h, a frame a line ---- */

struct frame {
    char file[PATH_MAX], function[600]; /* "": not known */
    uint64_t line;
};

/* Takes the next frame of *stack. Returns 0 at the end. */
static int frames_next(const char **stack, struct frame *out)
{
    const char *s = *stack;
    if (!s || !*s)
        return 0;
    const size_t n = strcspn(s, "\n");
    char text[PATH_MAX + 700];
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), s);
    *stack = s + n + (s[n] != 0);
    *out = (struct frame){.line = 0};
    char *in = strstr(text, " in "), *colon = in ? in : text + strlen(text);
    while (colon > text && colon[-1] >= '0' && colon[-1] <= '9')
        colon--;
    if (colon > text && colon[-1] == ':' && *colon >= '0' && *colon <= '9') {
        out->line = strtoull(colon, NULL, 10);
        snprintf(out->file, sizeof out->file, "%.*s", (int)(colon - text - 1), text);
        snprintf(out->function, sizeof out->function, "%s", in ? in + 4 : "");
    } else {
        snprintf(out->function, sizeof out->function, "%.599s", text);
    }
    return 1;
}

static void json_stack(struct mt_json *j, const char *stack)
{
    struct frame f;
    if (!stack || !*stack)
        return;
    mt_json_array(j, "stack", 0);
    while (frames_next(&stack, &f)) {
        mt_json_object(j, NULL, 1);
        json_given(j, "file", f.file);
        if (*f.file)
            mt_json_u64(j, "line", f.line);
        json_given(j, "function", f.function);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void json_side(struct mt_json *j, const struct mt_finding_side *s)
{
    json_given(j, "file", s->file);
    if (s->file && *s->file)
        mt_json_u64(j, "line", s->line);
    json_given(j, "at", s->at);
    json_given(j, "op", s->op);
    if (s->known)
        mt_json_numbers(j, "cta", 3, s->cta);
    if (s->known == 2)
        mt_json_numbers(j, "thread", 3, s->thread);
    json_stack(j, s->stack);
}

static void json_alloc(struct mt_json *j, const struct mt_finding *x)
{
    mt_json_object(j, "allocation", 1);
    mt_json_u64(j, "id", x->alloc->id);
    json_given(j, "name", x->alloc->name);
    mt_json_u64(j, "bytes", x->alloc->bytes);
    mt_json_text(j, "kind", x->alloc->kind);
    json_given(j, "file", x->alloc->file);
    if (*x->alloc->file)
        mt_json_u64(j, "line", x->alloc->line);
    json_given(j, "side", x->side);
    if (x->side && *x->side)
        mt_json_u64(j, "distance", x->distance);
    if (x->alloc->stack)
        json_stack(j, x->alloc->callers);
    mt_json_end(j);
}

/* Returns 1 if the place of the finding is that of its allocation. */
static int finding_is_of_blocks(const struct mt_finding *x)
{
    return x->kind == MT_FINDING_OF_LEAK || x->kind == MT_FINDING_OF_UNUSED ||
           x->kind == MT_FINDING_OF_UNREAD;
}

static int finding_knows_launch(const struct mt_finding *x)
{
    return (x->launched.file && *x->launched.file) || (x->launched.at && *x->launched.at);
}

static char *finding_sentence(const struct mt_finding *f);

static int json_finding(struct mt_json *j, const struct mt_finding *x)
{
    char *sentence = finding_sentence(x);
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "kind", mt_finding_rules[x->kind].word);
    mt_json_text(j, "level", mt_finding_levels[mt_finding_rules[x->kind].level]);
    json_side(j, &x->here);
    json_given(j, "kernel", x->kernel);
    json_given(j, "variable", x->var);
    json_given(j, "call", x->call);
    json_given(j, "error", x->error);
    if (x->size)
        mt_json_u64(j, mt_finding_rules[x->kind].group == MT_FINDING_CALLS ? "code" : "size", x->size);
    mt_json_u64(j, "count", x->count);
    if (x->launches)
        mt_json_u64(j, "launches", x->launches);
    if (x->total)
        mt_json_u64(j, "total", x->total);
    if (finding_knows_launch(x)) {
        mt_json_object(j, "launched", 0);
        json_side(j, &x->launched);
        mt_json_end(j);
    }
    if (x->alloc)
        json_alloc(j, x);
    if (x->other.op) {
        mt_json_object(j, "other", 1);
        json_side(j, &x->other);
        json_given(j, "kernel", x->other_kernel);
        mt_json_end(j);
    }
    mt_json_text(j, "message", sentence);
    mt_json_end(j);
    free(sentence);
    return sentence ? 0 : -1;
}

static int findings_json(struct mt_json *j, const struct mt_findings *x, const struct mt_findings_head *head)
{
    int rc = 0;
    mt_json_object(j, NULL, 0);
    json_given(j, "program", head->program);
    mt_json_known(j, "complete", head->complete);
    mt_json_array(j, "notes", 0);
    for (size_t i = 0; i < head->nnotes; i++)
        mt_json_text(j, NULL, head->notes[i]);
    mt_json_end(j);
    mt_json_u64(j, "errors", mt_findings_of(x, MT_FINDING_ERROR));
    mt_json_u64(j, "warnings", mt_findings_of(x, MT_FINDING_WARNING));
    mt_json_u64(j, "hints", mt_findings_of(x, MT_FINDING_HINT));
    mt_json_u64(j, "suppressed", head->suppressed);
    mt_json_array(j, "findings", 0);
    for (size_t i = 0; i < x->count && rc == 0; i++)
        rc = json_finding(j, &x->list[i]);
    mt_json_end(j);
    mt_json_end(j);
    return rc;
}

/* ---- SARIF ---- */

static const char *const levels[] = {"error", "warning", "note"};

static void sarif_message(struct mt_json *j, const char *key, const char *text)
{
    mt_json_object(j, key, 1);
    mt_json_text(j, "text", text);
    mt_json_end(j);
}

static void sarif_rules(struct mt_json *j)
{
    mt_json_array(j, "rules", 0);
    for (int i = 0; i < MT_FINDING_KINDS; i++) {
        mt_json_object(j, NULL, 0);
        mt_json_text(j, "id", mt_finding_rules[i].word);
        sarif_message(j, "shortDescription", mt_finding_rules[i].rule);
        mt_json_object(j, "defaultConfiguration", 1);
        mt_json_text(j, "level", levels[mt_finding_rules[i].level]);
        mt_json_end(j);
        mt_json_end(j);
    }
    mt_json_end(j);
}

/* Returns a file as a URI reference, relative if it lies below the current folder. NULL: no memory. */
static char *sarif_uri(const char *file)
{
    char here[PATH_MAX], *uri = malloc(3 * strlen(file) + 16), *at = uri;
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (!uri)
        return NULL;
    if (n > 1 && strncmp(file, here, n) == 0 && file[n] == '/')
        file += n + 1;
    else if (*file == '/')
        at = stpcpy(at, "file://");
    for (; *file; file++)
        if (strchr("/._-~", *file) || (*file >= '0' && *file <= '9') || (*file >= 'A' && *file <= 'Z') ||
            (*file >= 'a' && *file <= 'z'))
            *at++ = *file;
        else
            at += sprintf(at, "%%%02X", (unsigned char)*file);
    *at = 0;
    return uri;
}

static int sarif_place(struct mt_json *j, const char *key, const struct mt_finding_side *s)
{
    const char *plus = s->at ? strrchr(s->at, '+') : NULL;
    char *module = plus && *s->at == '/' ? strndup(s->at, (size_t)(plus - s->at)) : NULL;
    const char *file = s->file && *s->file ? s->file : module; /* falls back to the program's file */
    char *uri = file ? sarif_uri(file) : NULL;
    free(module);
    if (!file)
        return 0;
    mt_json_array(j, key, 0);
    mt_json_object(j, NULL, 1);
    mt_json_object(j, "physicalLocation", 1);
    mt_json_object(j, "artifactLocation", 1);
    mt_json_text(j, "uri", uri);
    mt_json_end(j);
    mt_json_object(j, "region", 1);
    mt_json_u64(j, "startLine", s->line ? s->line : 1);
    mt_json_end(j);
    mt_json_end(j);
    mt_json_end(j);
    mt_json_end(j);
    free(uri);
    return uri ? 0 : -1;
}

/* Writes one place of a stack. */
static int sarif_frame(struct mt_json *j, const struct frame *f)
{
    char *uri = *f->file ? sarif_uri(f->file) : NULL;
    mt_json_object(j, NULL, 1);
    mt_json_object(j, "location", 1);
    if (uri) {
        mt_json_object(j, "physicalLocation", 1);
        mt_json_object(j, "artifactLocation", 1);
        mt_json_text(j, "uri", uri);
        mt_json_end(j);
        mt_json_object(j, "region", 1);
        mt_json_u64(j, "startLine", f->line ? f->line : 1);
        mt_json_end(j);
        mt_json_end(j);
    }
    if (*f->function) {
        mt_json_array(j, "logicalLocations", 1);
        mt_json_object(j, NULL, 1);
        mt_json_text(j, "fullyQualifiedName", f->function);
        mt_json_end(j);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
    free(uri);
    return *f->file && !uri ? -1 : 0;
}

/* Writes a stack: the place itself, if it has a line, and what led to it. */
static int sarif_stack(struct mt_json *j, const char *what, const char *file, uint64_t line,
                       const char *stack)
{
    struct frame f = {.line = line};
    int rc = 0;
    mt_json_object(j, NULL, 0);
    sarif_message(j, "message", what);
    mt_json_array(j, "frames", 0);
    snprintf(f.file, sizeof f.file, "%s", file ? file : "");
    if (*f.file)
        rc = sarif_frame(j, &f);
    while (rc == 0 && frames_next(&stack, &f))
        rc = sarif_frame(j, &f);
    mt_json_end(j);
    mt_json_end(j);
    return rc;
}

static int sarif_stacks(struct mt_json *j, const struct mt_finding *x)
{
    const struct mt_alloc_event *a = x->alloc && x->alloc->stack ? x->alloc : NULL;
    int rc = 0, here = x->here.stack && *x->here.stack, launch = finding_knows_launch(x);
    if (!here && !launch && !a)
        return 0;
    mt_json_array(j, "stacks", 0);
    if (here)
        rc = sarif_stack(j, "the place itself", x->here.file, x->here.line, x->here.stack);
    if (rc == 0 && launch)
        rc = sarif_stack(j, "launched", x->launched.file, x->launched.line, x->launched.stack);
    if (rc == 0 && a && !finding_is_of_blocks(x))
        rc = sarif_stack(j, "allocated", a->file, a->line, a->callers);
    mt_json_end(j);
    return rc;
}

static int sarif_result(struct mt_json *j, const struct mt_finding *x)
{
    char *sentence = finding_sentence(x);
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "ruleId", mt_finding_rules[x->kind].word);
    mt_json_u64(j, "ruleIndex", x->kind);
    mt_json_text(j, "level", levels[mt_finding_rules[x->kind].level]);
    sarif_message(j, "message", sentence);
    int rc = sarif_place(j, "locations", &x->here);
    rc = rc == 0 ? sarif_place(j, "relatedLocations", &x->other) : rc;
    rc = rc == 0 ? sarif_stacks(j, x) : rc;
    mt_json_end(j);
    free(sentence);
    return sentence ? rc : -1;
}

/* Writes whether the run was complete, since no findings in part of a trace do not mean that there are none.
 */
static void sarif_invocation(struct mt_json *j, const struct mt_findings_head *head)
{
    mt_json_array(j, "invocations", 0);
    mt_json_object(j, NULL, 0);
    mt_json_bool(j, "executionSuccessful", head->complete != 0);
    mt_json_array(j, "toolExecutionNotifications", 0);
    for (size_t i = 0; i < head->nnotes; i++) {
        mt_json_object(j, NULL, 0);
        mt_json_text(j, "level", head->complete ? "note" : "error");
        sarif_message(j, "message", head->notes[i]);
        mt_json_end(j);
    }
    for (int i = 0; i < 3; i++)
        mt_json_end(j);
}

static int findings_sarif(struct mt_json *j, const struct mt_findings *x, const struct mt_findings_head *head)
{
    int rc = 0;
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    mt_json_text(j, "version", "2.1.0");
    mt_json_array(j, "runs", 0);
    mt_json_object(j, NULL, 0);
    mt_json_object(j, "tool", 0);
    mt_json_object(j, "driver", 0);
    mt_json_text(j, "name", "memtrace check");
    mt_json_text(j, "version", MEMTRACE_VERSION);
    sarif_rules(j);
    mt_json_end(j);
    mt_json_end(j);
    sarif_invocation(j, head);
    mt_json_text(j, "columnKind", "utf16CodeUnits");
    mt_json_array(j, "results", 0);
    for (size_t i = 0; i < x->count && rc == 0; i++)
        rc = sarif_result(j, &x->list[i]);
    for (int i = 0; i < 4; i++)
        mt_json_end(j);
    return rc;
}

int mt_findings_write(struct mt_json *j, const struct mt_findings *x, const struct mt_findings_head *head,
                      int sarif)
{
    return (sarif ? findings_sarif : findings_json)(j, x, head);
}

/* ---- Text for a terminal ---- */

enum { MOST_LINES = 1000 }; /* limit for terminal output */

static void text_colour(FILE *f, int colours, const char *code)
{
    if (colours)
        fprintf(f, "\033[%sm", code);
}

static char *finding_place(const struct mt_finding_side *s);
static const char *words_below_here(const char *file);

enum { MOST_FRAMES = 6 }; /* lines of one stack in a terminal */

static void text_frame(FILE *f, const char *what, const struct frame *x)
{
    fprintf(f, "    %s ", what);
    if (*x->file) {
        mt_text_put(f, words_below_here(x->file));
        fprintf(f, ":%" PRIu64 "%s", x->line, *x->function ? " in " : "");
    }
    mt_text_put(f, x->function);
    fputc('\n', f);
}

static void text_stack(FILE *f, const char *what, const char *stack)
{
    struct frame x;
    unsigned n = 0, more = 0;
    while (frames_next(&stack, &x))
        if (n++ < MOST_FRAMES)
            text_frame(f, what, &x);
        else
            more++;
    if (more)
        fprintf(f, "    … %u more\n", more);
}

/* Writes who led to the place, to the launch and to the allocation. */
static void text_stacks(FILE *f, const struct mt_finding *x)
{
    const struct mt_alloc_event *a = x->alloc && x->alloc->stack && *x->alloc->callers ? x->alloc : NULL;
    struct frame launch = {.line = x->launched.line};
    text_stack(f, finding_knows_launch(x) ? "inlined into" : "called from", x->here.stack);
    if (finding_knows_launch(x)) {
        snprintf(launch.file, sizeof launch.file, "%s", x->launched.file ? x->launched.file : "");
        snprintf(launch.function, sizeof launch.function, "%s", *launch.file ? "" : x->launched.at);
        text_frame(f, "launched at", &launch);
        text_stack(f, "  called from", x->launched.stack);
    }
    text_stack(f, "the other called from", x->other.stack);
    if (a && !finding_is_of_blocks(x)) {
        struct frame at = {.line = a->line};
        snprintf(at.file, sizeof at.file, "%s", a->file);
        snprintf(at.function, sizeof at.function, "%s", *at.file ? "" : a->at);
        text_frame(f, "allocated at", &at);
        text_stack(f, "  called from", a->callers);
    }
}

static int text_line(FILE *f, const struct mt_finding *x, int colours)
{
    static const char *const codes[] = {"1;31", "1;35", "1;36"};
    const struct mt_finding_rule *rule = &mt_finding_rules[x->kind];
    char *place = finding_place(&x->here), *sentence = finding_sentence(x);
    if (place && sentence) {
        text_colour(f, colours, "1");
        mt_text_put(f, place);
        fputs(": ", f);
        text_colour(f, colours, codes[rule->level]);
        fprintf(f, "%s%s: ", rule->level == MT_FINDING_HINT ? "hint: " : "", rule->word);
        text_colour(f, colours, "0");
        mt_text_put(f, sentence);
        fputc('\n', f);
        text_stacks(f, x);
    }
    int rc = place && sentence ? 0 : -1;
    free(place);
    free(sentence);
    return rc;
}

static int text_same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Returns 1 if both are races of the same two lines of one kernel, by other accesses of these lines. */
static int text_is_further(const struct mt_finding *a, const struct mt_finding *b)
{
    return a->kind == b->kind &&
           (a->kind == MT_FINDING_OF_SHARED_RACE || a->kind == MT_FINDING_OF_GLOBAL_RACE) &&
           a->here.line == b->here.line && a->other.line == b->other.line &&
           text_same(a->kernel, b->kernel) && text_same(a->here.file, b->here.file) &&
           text_same(a->other.file, b->other.file) && a->here.line && a->other.line;
}

/* Writes a finding and, in a line, how many others of the same lines follow it. Returns how many, or -1. */
static int text_group(FILE *f, const struct mt_finding *x, size_t n, int colours)
{
    int further = 0;
    if (text_line(f, x, colours) != 0)
        return -1;
    while ((size_t)further + 1 < n && text_is_further(x, &x[further + 1]))
        further++;
    if (further)
        fprintf(f, "    and %s of these lines (reads and writes, threads and CTAs)\n",
                mt_number_many((size_t)further, "more race", "more races").text);
    return further;
}

int mt_findings_write_text(FILE *f, const struct mt_findings *x, int hints, int colours)
{
    size_t said = 0;
    int more = 0;
    for (size_t i = 0; i < x->count && more >= 0; i += 1 + (size_t)more) {
        more = 0;
        if (!hints && mt_finding_rules[x->list[i].kind].level == MT_FINDING_HINT)
            continue;
        if (said++ < MOST_LINES)
            more = text_group(f, &x->list[i], x->count - i, colours);
    }
    if (said > MOST_LINES)
        fprintf(f, "%s not shown here: --format=json has all\n",
                mt_number_many(said - MOST_LINES, "more finding is", "more findings are").text);
    return more < 0 ? -1 : 0;
}

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

/* Writes an allocation: "`a` (16384 bytes, app.cu:79)". */
static void findings_out_words_alloc(FILE *f, const struct mt_alloc_event *a)
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

/* Writes the number of accesses: ": 3 accesses in 2 launches, first by CTA 31, thread 127". */
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

/* Writes the access: "kernel reads 4 bytes through `p`". */
static void words_access(FILE *f, const struct mt_finding *x)
{
    char *kernel = mt_kernel_short(x->kernel);
    fprintf(f, "%s %s ", kernel ? kernel : "?", words_verb(x->here.op));
    words_many(f, x->size, "byte");
    if (x->var && *x->var)
        fprintf(f, " through `%s`", x->var);
    free(kernel);
}

/* ---- sentences by kind ---- */

static void words_beside(FILE *f, const struct mt_finding *x)
{
    if (x->alloc && x->side && (strcmp(x->side, "after") == 0 || strcmp(x->side, "before") == 0)) {
        words_many(f, x->distance, "byte");
        fprintf(f, " %s ", x->side);
        findings_out_words_alloc(f, x->alloc);
    } else if (x->alloc && x->side && strcmp(x->side, "freed") == 0 && !strstr(x->words, "freed at")) {
        fputs("of ", f);
        findings_out_words_alloc(f, x->alloc);
        fputs(", which was freed", f);
    } else {
        fputs(x->words ? x->words : "", f);
    }
}

static void words_bad_access(FILE *f, const struct mt_finding *x)
{
    words_access(f, x);
    fputs(x->kind == MT_FINDING_OF_MISALIGNED ? " at a misaligned address, " : ", ", f);
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
        findings_out_words_alloc(f, x->alloc);
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
    findings_out_words_alloc(f, x->alloc);
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
        findings_out_words_alloc(f, x->alloc);
    }
    int threads = memcmp(x->here.cta, x->other.cta, sizeof x->here.cta) == 0;
    int own =
        threads && memcmp(x->here.thread, x->other.thread, sizeof x->here.thread) == 0 && x->here.known == 2;
    fprintf(f,
            own       ? " that the thread's own asynchronous copy %s at "
            : threads ? " that another thread %s at "
                      : " that another CTA %s at ",
            words_verb(x->other.op));
    words_place(f, x->other.file, x->other.line, x->other.at);
    fprintf(f, ", %s: ",
            own ? "with no wait for the copy (__pipeline_wait_prior, cp.async.wait_group) between the two"
            : x->narrow ? "and the scope of one does not include the other"
            : x->unfenced > 1
                ? "with nothing to order the two, since no fence (__threadfence) comes before the "
                  "atomic that tells it, or after the one that is told"
            : x->unfenced ? "with nothing to order the two, since no fence (__threadfence) comes before "
                            "the atomic between them"
            : threads     ? "with no barrier or wait between the two"
                          : "with nothing to order the two");
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
    static const char *const others[][2] = {
        {"", "a copy"}, {"<fill>", "a fill"}, {"<free>", "a free"}, {"<allocation>", "an allocation"}};
    const char *other = kernel ? NULL : "a copy";
    for (size_t i = 0; kernel && i < sizeof others / sizeof *others; i++)
        other = strcmp(kernel, others[i][0]) ? other : others[i][1];
    char *name = other ? NULL : mt_kernel_short(kernel);
    fputs(name ? name : other ? other : "?", f);
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
    fprintf(f, " %s, and no stream, event or edge of a graph orders the two: ",
            !strcmp(x->other_kernel ? x->other_kernel : "", "<free>")         ? "frees"
            : !strcmp(x->other_kernel ? x->other_kernel : "", "<allocation>") ? "provides"
                                                                              : words_verb(x->other.op));
    words_many(f, x->count, "byte");
    if (x->alloc) {
        fputs(x->count > x->alloc->bytes ? ", the first of " : " of ", f);
        findings_out_words_alloc(f, x->alloc);
    }
    if (x->launches > 1)
        fprintf(f, " (%" PRIu64 " times)", x->launches);
}

static void words_host_race(FILE *f, const struct mt_finding *x)
{
    int function = x->kernel && *x->kernel;
    fprintf(f, "%s %s ", function ? "a host function" : "the host", words_verb(x->here.op));
    if (x->alloc)
        findings_out_words_alloc(f, x->alloc);
    else
        fputs("memory", f);
    fputs(", which ", f);
    words_doer(f, x->other_kernel);
    if ((x->other.file && *x->other.file) || (x->other.at && *x->other.at)) {
        fputs(" of ", f);
        words_place(f, x->other.file, x->other.line, x->other.at);
    }
    fprintf(f, " %s, and %s", words_verb(x->other.op),
            function ? "no stream, event or edge of a graph orders the two" : "has not waited for that");
    if (x->count > 1)
        fprintf(f, " (%" PRIu64 " times)", x->count);
}

static void words_use(FILE *f, const struct mt_finding *x)
{
    static const char *const what[MT_FINDING_KINDS] = {
        [MT_FINDING_OF_LEAK] = " is not freed when the program ends",
        [MT_FINDING_OF_UNUSED] = " is never read or written",
        [MT_FINDING_OF_UNREAD] = " is written and never read",
    };
    findings_out_words_alloc(f, x->alloc);
    fputs(what[x->kind], f);
    if (x->count > 1)
        fprintf(f, " (and %" PRIu64 " more %s", x->count - 1,
                x->here.file && *x->here.file ? "from this line"
                : x->here.at && *x->here.at   ? "from this call"
                                              : "without a known line");
    if (x->count > 1 && x->kind == MT_FINDING_OF_LEAK)
        fprintf(f, ", %" PRIu64 " bytes in total", x->total);
    fputs(x->count > 1 ? ")" : "", f);
}

static void words_copies(FILE *f, const struct mt_finding *x)
{
    if (x->kind == MT_FINDING_OF_TINY_COPIES) {
        fprintf(f, "%" PRIu64 " copies", x->count);
        fprintf(f, " of %" PRIu64 " bytes on average: one large copy costs less",
                x->size / (x->count ? x->count : 1));
        return;
    }
    if (x->kind == MT_FINDING_OF_UNCHANGED_COPY) {
        fprintf(f,
                "%" PRIu64 " of %" PRIu64 " copies bring bytes that are there already: %" PRIu64 " in total",
                x->count, x->launches, x->size);
        return;
    }
    fprintf(f, "a copy of %" PRIu64 " bytes to ", x->size);
    findings_out_words_alloc(f, x->alloc);
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
    [MT_FINDING_OF_HOST_RACE] = words_host_race,
    [MT_FINDING_OF_BARRIER] = words_of_kernel,
    [MT_FINDING_OF_MASK] = words_of_kernel,
    [MT_FINDING_OF_LEFT] = words_of_kernel,
    [MT_FINDING_OF_SAME_WORD] = words_of_kernel,
    [MT_FINDING_OF_LEAK] = words_use,
    [MT_FINDING_OF_UNUSED] = words_use,
    [MT_FINDING_OF_UNREAD] = words_use,
    [MT_FINDING_OF_UNCHANGED_COPY] = words_copies,
    [MT_FINDING_OF_UNREAD_COPY] = words_copies,
    [MT_FINDING_OF_TINY_COPIES] = words_copies,
};

/* ---- output ---- */

static char *words_end(struct words *w)
{
    if (w->f && fclose(w->f) != 0) {
        free(w->text);
        w->text = NULL;
    }
    return w->text;
}

/* Returns the sentence without place and kind, to be freed; NULL: no memory. */
static char *finding_sentence(const struct mt_finding *f)
{
    struct words w = {0};
    if ((w.f = open_memstream(&w.text, &w.size)))
        sentences[f->kind](w.f, f);
    return words_end(&w);
}

/* Returns the place, "app.cu:57", with the path relative if it lies below the current folder, or "?". To be
 * freed; NULL: no memory. */
static char *finding_place(const struct mt_finding_side *s)
{
    struct words w = {0};
    if ((w.f = open_memstream(&w.text, &w.size)))
        words_place(w.f, s->file, s->line, s->at);
    return words_end(&w);
}

/* ---- the first finding of each kind ---- */

/* Returns the weight of a finding among those of its kind: the heaviest is named. The weight of an allocation
 * is its size, all others are equal. */
static uint64_t words_weight(const struct mt_finding *x)
{
    return finding_is_of_blocks(x) ? x->total : 0;
}

/* Writes the innermost callers: ", called from FILE:LINE in FUNCTION, …". */
static void words_callers(FILE *f, const char *stack)
{
    struct frame x;
    for (unsigned n = 0; n < 3 && frames_next(&stack, &x); n++) {
        fputs(n ? ", " : ", called from ", f);
        const char *slash = strrchr(x.file, '/');
        if (*x.file)
            fprintf(f, "%s:%" PRIu64 "%s", slash ? slash + 1 : x.file, x.line, *x.function ? " in " : "");
        fputs(x.function, f);
    }
}

static int words_first(const struct mt_finding *x, size_t more,
                       int (*say)(void *arg, int look, const char *sentence), void *arg)
{
    const struct mt_finding_rule *rule = &mt_finding_rules[x->kind];
    char *place = finding_place(&x->here), *words = finding_sentence(x);
    struct words w = {0};
    if (place && words && (w.f = open_memstream(&w.text, &w.size))) {
        fprintf(w.f, "%s%s%s", rule->word, strcmp(place, "?") == 0 ? "" : " at ",
                strcmp(place, "?") == 0 ? "" : place);
        if (more)
            fprintf(w.f, " (and %zu more)", more);
        fprintf(w.f, ": %s", words);
        words_callers(w.f, x->launched.file ? NULL : x->here.stack);
        fputc('.', w.f);
    }
    char *text = words_end(&w);
    int rc = text ? say(arg, rule->level != MT_FINDING_HINT, text) : -1;
    free(place);
    free(words);
    free(text);
    return rc;
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
