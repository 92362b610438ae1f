/* The content of a kernel, independent of the rest of the module and of its position: its text and that of
 * the functions it calls, with names that contain the module's counters as numbers in their order,
 * variables as declared, and lines as numbers, too. Two versions of a program with equal content get the
 * same code; lines of one are found in the other by their index in the list. */
#include "module_parts.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct content {
    struct mt_ptx *x;
    FILE *out;
    struct mt_ptx_map lines, labels,
        known; /* "file line" and labels to numbers, from 1; functions, variables */
    const struct mt_ptx_function **function;
    unsigned nfunctions, functions_cap;
    struct mt_ptx_place *place;
    char *word;
    size_t word_cap;
    unsigned nplaces, places_cap;
    int failed;
};

static int content_is_word(int c)
{
    return isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* Returns the word as a string, valid until the next call; NULL without memory. */
static const char *content_string(struct content *c, const char *from, size_t n)
{
    char *more = n < c->word_cap ? c->word : realloc(c->word, n + 256);
    if (!more) {
        c->failed = 1;
        return NULL;
    }
    c->word_cap = n < c->word_cap ? c->word_cap : n + 256;
    c->word = more;
    memcpy(more, from, n);
    more[n] = 0;
    return more;
}

/* Adds it to the map under a copy. */
static void content_keep(struct content *c, struct mt_ptx_map *map, const char *key, size_t value)
{
    size_t n = strlen(key) + 1;
    char *copy = mt_parse_alloc(&c->x->p, n);
    if (copy)
        memcpy(copy, key, n);
    if (!copy || mt_ptx_map_put(map, copy, (void *)value))
        c->failed = 1;
}

/* Returns the key's number, a new one for a new key. */
static size_t content_number(struct content *c, struct mt_ptx_map *map, const char *key)
{
    size_t n = (size_t)mt_ptx_map_get(map, key);
    if (!n)
        content_keep(c, map, key, n = map->places.count + 1);
    return n;
}

static void content_place(struct content *c, LLVMMetadataRef file, unsigned line, unsigned lines)
{
    c->place = mt_parse_grow(&c->x->p, c->place, c->nplaces, &c->places_cap, sizeof *c->place);
    if (c->place)
        c->place[c->nplaces++] = (struct mt_ptx_place){.file = file, .line = line, .lines = lines};
    else
        c->failed = 1, c->nplaces = 0;
}

static void content_file(FILE *to, LLVMMetadataRef file)
{
    unsigned folder_length, name_length;
    const char *folder = LLVMDIFileGetDirectory(file, &folder_length);
    const char *name = LLVMDIFileGetFilename(file, &name_length);
    fprintf(to, "%.*s%s%.*s", (int)folder_length, folder, folder_length ? "/" : "", (int)name_length, name);
}

char *mt_ptx_place_file(const struct mt_ptx_place *place)
{
    char *text = NULL;
    size_t size;
    FILE *f = place->file ? open_memstream(&text, &size) : NULL;
    if (!f)
        return NULL;
    content_file(f, place->file);
    return fclose(f) ? NULL : text;
}

static unsigned content_unsigned(const char **at, const char *end)
{
    unsigned n = 0;
    while (*at < end && (**at == ' ' || **at == '\t'))
        ++*at;
    for (; *at < end && isdigit((unsigned char)**at); ++*at)
        n = n * 10 + (unsigned)(**at - '0');
    return n;
}

/* Writes "file line column": a number for the line, and the column itself. Line 0 is no place. */
static void content_three(struct content *c, const char **at, const char *end)
{
    struct mt_ptx_debug *d = &c->x->debug;
    unsigned file = content_unsigned(at, end), line = content_unsigned(at, end);
    unsigned column = content_unsigned(at, end);
    size_t before = c->lines.places.count;
    char key[32];
    snprintf(key, sizeof key, "%u %u", file, line);
    size_t n = line ? content_number(c, &c->lines, key) : 0;
    fprintf(c->out, " %zu %u", n, column);
    if (c->lines.places.count > before) {
        LLVMMetadataRef at_file = file < d->nfiles ? d->files[file] : NULL;
        content_place(c, at_file, line, 1);
        if (at_file)
            content_file(c->out, at_file);
    }
}

/* Reads after ".loc" up to text that is the same in all versions. */
static const char *content_location(struct content *c, const char *at, const char *end)
{
    const char *word = "function_name", *inlined = "inlined_at";
    content_three(c, &at, end);
    for (;;) {
        const char *from = at;
        while (at < end && (*at == ' ' || *at == '\t' || *at == ','))
            at++;
        if ((size_t)(end - at) > strlen(word) && !strncmp(at, word, strlen(word))) {
            at += strlen(word);
            while (at < end && (*at == ' ' || *at == '\t'))
                at++;
            const char *stop = at;
            while (stop < end && content_is_word((unsigned char)*stop))
                stop++;
            const char *label = content_string(c, at, (size_t)(stop - at));
            const char *name = label ? mt_ptx_map_get(&c->x->strings, label) : NULL;
            fprintf(c->out, " in %s", name ? name : "?");
            at = stop;
        } else if ((size_t)(end - at) > strlen(inlined) && !strncmp(at, inlined, strlen(inlined))) {
            at += strlen(inlined);
            fputs(" at", c->out);
            content_three(c, &at, end);
        } else {
            return from;
        }
    }
}

static void content_function(struct content *c, const struct mt_ptx_function *f)
{
    c->function = mt_parse_grow(&c->x->p, c->function, c->nfunctions, &c->functions_cap, sizeof *c->function);
    if (c->function)
        c->function[c->nfunctions++] = f;
    else
        c->failed = 1, c->nfunctions = 0;
}

/* Returns 1 for names with a number that counts over the whole module. */
static int content_is_counted(const char *word)
{
    return *word == '$' || !strncmp(word, "__local_depot", 13) || !strncmp(word, "prototype_", 10);
}

/* Writes a variable without its initial value, which is in the base. */
static void content_variable(struct content *c, LLVMValueRef v)
{
    char *type = LLVMPrintTypeToString(LLVMGlobalGetValueType(v));
    const char *section = LLVMGetSection(v);
    fprintf(c->out, "{%u %s %u %d %d %s}", LLVMGetPointerAddressSpace(LLVMTypeOf(v)), type,
            LLVMGetAlignment(v), LLVMIsGlobalConstant(v), (int)LLVMGetLinkage(v), section ? section : "");
    LLVMDisposeMessage(type);
}

static void content_word(struct content *c, const char *from, size_t n)
{
    int is_name = isalpha((unsigned char)*from) || *from == '_' || *from == '$';
    const char *word = is_name ? content_string(c, from, n) : NULL;
    const struct mt_ptx_function *f = word ? mt_ptx_find_function(c->x, word) : NULL;
    LLVMValueRef v = word && !f ? LLVMGetNamedGlobal(c->x->m, word) : NULL;
    if (word && !f && !v && content_is_counted(word)) {
        fprintf(c->out, "$%zu", content_number(c, &c->labels, word));
        return;
    }
    fwrite(from, 1, n, c->out);
    if ((!f && !v) || mt_ptx_map_get(&c->known, word))
        return;
    content_keep(c, &c->known, word, 1);
    if (f)
        content_function(c, f);
    if (v)
        content_variable(c, v);
}

/* Skips a comment but keeps its line ends. */
static const char *content_comment(struct content *c, const char *at, const char *end)
{
    const char *stop =
        at[1] == '/' ? memchr(at, '\n', (size_t)(end - at)) : memmem(at + 2, (size_t)(end - at) - 2, "*/", 2);
    stop = !stop ? end : at[1] == '/' ? stop : stop + 2;
    for (; at < stop; at++)
        if (*at == '\n')
            fputc('\n', c->out);
    return stop;
}

static void content_text(struct content *c, const char *at, const char *end)
{
    while (at < end && !c->failed) {
        const char *stop = at;
        if (at + 1 < end && at[0] == '/' && (at[1] == '/' || at[1] == '*')) {
            at = content_comment(c, at, end);
            continue;
        }
        if (*at == '"') {
            stop = memchr(at + 1, '"', (size_t)(end - at) - 1);
            stop = stop ? stop + 1 : end;
            fwrite(at, 1, (size_t)(stop - at), c->out);
        } else if (content_is_word((unsigned char)*at)) {
            while (stop < end && content_is_word((unsigned char)*stop))
                stop++;
            content_word(c, at, (size_t)(stop - at));
            if (stop - at == 4 && !memcmp(at, ".loc", 4))
                stop = content_location(c, stop, end);
        } else {
            fputc(*stop++, c->out);
        }
        at = stop;
    }
}

static void content_add(struct content *c, const struct mt_ptx_function *f)
{
    struct mt_ptx *x = c->x;
    const char *text = x->p.text, *from = text + f->place;
    unsigned line = mt_ptx_line(x, f->place), lines = 1;
    char *type = LLVMPrintTypeToString(f->sig.type);
    if (f->at && !x->debug.has_lines)
        lines = mt_ptx_line(x, f->end) - line + 1;
    content_place(c, NULL, line, lines);
    fprintf(c->out, "\n%s %s %d %u\n", f->name, type, f->is_kernel, lines);
    LLVMDisposeMessage(type);
    while (from > text && from[-1] != '\n')
        from--;
    if (f->at) {
        content_text(c, from, text + f->end);
    }
    mt_ptx_map_free(&c->labels);
    c->labels = (struct mt_ptx_map){0};
}

int mt_ptx_content(struct mt_ptx *x, const struct mt_ptx_function *kernel)
{
    struct content c = {.x = x};
    struct mt_ptx_content told = {.kernel = kernel->name};
    char *text = NULL;
    size_t size = 0;
    c.out = open_memstream(&text, &size);
    if (!c.out)
        return mt_parse_no_memory(&x->p);
    fprintf(c.out, "%u %d %d %d", x->architecture, x->is_debug, x->debug.has_lines, x->result->pointers);
    content_keep(&c, &c.known, kernel->name, 1);
    content_function(&c, kernel);
    for (unsigned i = 0; i < c.nfunctions && !c.failed; i++)
        content_add(&c, c.function[i]);
    c.failed |= ferror(c.out) != 0;
    c.failed |= fclose(c.out) != 0;
    told.text = text;
    told.length = size;
    told.places = c.place;
    told.nplaces = c.nplaces;
    if (!c.failed)
        c.failed = x->source->content(x->source->ctx, &told) != 0;
    free(text);
    free(c.word);
    mt_ptx_map_free(&c.lines);
    mt_ptx_map_free(&c.labels);
    mt_ptx_map_free(&c.known);
    return c.failed ? mt_parse_no_memory(&x->p) : 0;
}
