/* Findings as JSON and as SARIF (OASIS, version 2.1.0). */
#define _GNU_SOURCE
#include "findings_out.h"
#include "output/text/finding_words.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- JSON ---- */

static void json_given(struct mt_json *j, const char *key, const char *value)
{
    if (value && *value)
        mt_json_text(j, key, value);
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
    mt_json_end(j);
}

static int json_finding(struct mt_json *j, const struct mt_finding *x)
{
    char *sentence = mt_finding_sentence(x);
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

int mt_findings_write_json(struct mt_json *j, const struct mt_findings *x,
                           const struct mt_findings_head *head)
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

/* A file as a reference: below the current folder a relative one. NULL without memory. */
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
    const char *file = s->file && *s->file ? s->file : module; /* the program, where nothing else is known */
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

static int sarif_result(struct mt_json *j, const struct mt_finding *x)
{
    char *sentence = mt_finding_sentence(x);
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "ruleId", mt_finding_rules[x->kind].word);
    mt_json_u64(j, "ruleIndex", x->kind);
    mt_json_text(j, "level", levels[mt_finding_rules[x->kind].level]);
    sarif_message(j, "message", sentence);
    int rc = sarif_place(j, "locations", &x->here);
    rc = rc == 0 ? sarif_place(j, "relatedLocations", &x->other) : rc;
    mt_json_end(j);
    free(sentence);
    return sentence ? rc : -1;
}

/* Nothing found in a part of a trace must not look as nothing found. */
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

int mt_findings_write_sarif(struct mt_json *j, const struct mt_findings *x,
                            const struct mt_findings_head *head)
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
