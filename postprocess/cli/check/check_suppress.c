/* Findings that are known and accepted. A line of the file is
 *
 *     KIND [KERNEL [FILE]]      KIND: a word, a group's, or *; KERNEL, FILE: patterns of the shell, of the
 * whole name; # begins a remark
 */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

struct rule {
    char *kind, *kernel, *file; /* NULL: any */
};

static int suppress_text(const char *pattern, const char *text)
{
    return !pattern || strcmp(pattern, "*") == 0 || (text && fnmatch(pattern, text, 0) == 0);
}

static int suppress_kind(const char *kind, const struct mt_finding_rule *rule)
{
    return strcmp(kind, mt_finding_groups[rule->group]) == 0 || suppress_text(kind, rule->word);
}

static int suppress_match(const struct rule *r, const struct mt_finding *f)
{
    return suppress_kind(r->kind, &mt_finding_rules[f->kind]) && suppress_text(r->kernel, f->kernel) &&
           (suppress_text(r->file, f->here.file) || suppress_text(r->file, f->other.file));
}

static void suppress_apply(struct mt_findings *f, const struct rule *r, size_t *taken)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        if (!suppress_match(r, &f->list[i]))
            f->list[n++] = f->list[i];
    *taken += f->count - n;
    f->count = n;
}

static int suppress_known(const char *kind)
{
    const char *words[MT_FINDING_KINDS + 1] = {NULL};
    for (int i = 0; i < MT_FINDING_KINDS; i++)
        words[i] = mt_finding_rules[i].word;
    return strpbrk(kind, "*?[") != NULL || mt_cli_word(kind, words) >= 0 ||
           mt_cli_word(kind, mt_finding_groups) >= 0;
}

static int suppress_line(struct mt_findings *f, const char *path, unsigned number, char *line, size_t *taken)
{
    char *save;
    if (number == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0) /* editors put it there */
        line += 3;
    line[strcspn(line, "#")] = 0;
    for (size_t n = strlen(line); n && strchr(" \t\r\n", line[n - 1]);)
        line[--n] = 0;
    struct rule r = {.kind = strtok_r(line, " \t", &save)};
    if (!r.kind)
        return 0;
    r.kernel = strtok_r(NULL, " \t", &save);
    r.file = r.kernel ? strtok_r(NULL, "", &save) : NULL;
    if (!suppress_known(r.kind))
        return mt_cli_usage("%s:%u: '%s' is no kind of finding", path, number, r.kind);
    while (r.file && (*r.file == ' ' || *r.file == '\t'))
        r.file++;
    suppress_apply(f, &r, taken);
    return 0;
}

int mt_check_suppress(struct mt_findings *f, const char *path, size_t *taken)
{
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    int code = 0;
    if (!in)
        return mt_cli_refuse("%s: %s", path, strerror(errno));
    for (unsigned number = 1; code == 0 && getline(&line, &room, in) >= 0; number++)
        code = suppress_line(f, path, number, line, taken);
    if (code == 0 && ferror(in)) { /* a folder can be opened */
        mt_cli_say("%s: cannot be read: %s", path, strerror(errno));
        code = MT_EXIT_USAGE;
    }
    free(line);
    fclose(in);
    return code;
}
