/* Modules of PTX: directives outside of functions; then the functions, one after the other. */
#include "module_parts.h"
#include "memtrace/grow.h"
#include "format/image.h"
#include "unit/options.h"

#include <ctype.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Source locations of instructions: .file and .loc, with inlining, as LLVM's debug locations. A PTX file
 * without them is its own source. */

#define MAX_FILES 65536
#define STEP 4096 /* bytes between text positions with known lines */
#define NEAR 2048 /* maximum places searched for the one at which code was inlined */

static LLVMMetadataRef debug_file(struct mt_ptx *x, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return LLVMDIBuilderCreateFile(x->debug.b, name, strlen(name), path, slash ? (size_t)(slash - path) : 0);
}

static void ptx_debug_begin(struct mt_ptx *x)
{
    struct mt_ptx_debug *d = &x->debug;
    if (x->source->origin) {
        x->source->origin->begin(x->source->origin->ctx, x->m);
        return;
    }
    LLVMTypeRef i32 = LLVMInt32TypeInContext(x->c);
    d->b = LLVMCreateDIBuilder(x->m);
    d->own = debug_file(x, x->source->name);
    d->unit =
        LLVMDIBuilderCreateCompileUnit(d->b, LLVMDWARFSourceLanguageC_plus_plus, d->own, "memtrace", 8, 1, "",
                                       0, 0, "", 0, LLVMDWARFEmissionLineTablesOnly, 0, 0, 0, "", 0, "", 0);
    d->type = LLVMDIBuilderCreateSubroutineType(d->b, d->own, NULL, 0, LLVMDIFlagZero);
    LLVMAddModuleFlag(x->m, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18,
                      LLVMValueAsMetadata(LLVMConstInt(i32, LLVMDebugMetadataVersion(), 0)));
    d->line = 1;
}

static void ptx_debug_end(struct mt_ptx *x)
{
    if (x->debug.b) {
        LLVMDIBuilderFinalize(x->debug.b);
        LLVMDisposeDIBuilder(x->debug.b);
    }
    mt_ptx_map_free(&x->debug.functions);
    mt_ptx_map_free(&x->debug.blocks);
    free(x->debug.files);
    free(x->debug.lines);
}

/* Counts the lines up to each step. */
static unsigned *debug_count_lines(const struct mt_ptx *x)
{
    size_t n = (size_t)(x->p.end - x->p.text) / STEP + 1;
    unsigned line = 1, *lines = malloc(n * sizeof *lines);
    for (size_t i = 0; lines && i < n; i++) {
        lines[i] = line;
        for (size_t at = i * STEP; i + 1 < n && at < (i + 1) * STEP; at++)
            line += x->p.text[at] == '\n';
    }
    return lines;
}

/* Returns the line of the text at this offset, counted from 1. */
static unsigned ptx_line(struct mt_ptx *x, size_t offset)
{
    struct mt_ptx_debug *d = &x->debug;
    size_t all = (size_t)(x->p.end - x->p.text);
    offset = offset < all ? offset : all;
    if (offset < d->counted || offset - d->counted > STEP) {
        if (!d->lines)
            d->lines = debug_count_lines(x);
        size_t step = d->lines ? offset / STEP : 0;
        d->counted = step * STEP;
        d->line = d->lines ? d->lines[step] : 1;
    }
    for (; d->counted < offset && x->p.text + d->counted < x->p.end; d->counted++)
        d->line += x->p.text[d->counted] == '\n';
    return d->line;
}

/* Reads a number of at most `max`. */
static int ptx_unsigned(struct mt_parser *p, uint64_t max, uint64_t *out)
{
    struct mt_asm_operand o = {0};
    if (mt_parse_number(p, &o))
        return -1;
    if (o.kind != MT_ASM_INT || o.bits > max)
        return mt_parse_fail(p, "the number is too large, or none");
    *out = o.bits;
    return 0;
}

/* .file 1 "path"{, time, size} */
static int ptx_read_file(struct mt_ptx *x)
{
    struct mt_parser *p = &x->p;
    struct mt_ptx_debug *d = &x->debug;
    uint64_t number = 0, ignored;
    mt_parse_space(p);
    if (ptx_unsigned(p, MAX_FILES - 1, &number) || mt_parse_expect(p, '"'))
        return -1;
    const char *from = p->at;
    while (p->at < p->end && *p->at != '"' && *p->at != '\n')
        p->at++;
    size_t n = (size_t)(p->at - from);
    char *path = mt_parse_alloc(p, n + 1);
    if (!path)
        return mt_parse_no_memory(p);
    memcpy(path, from, n);
    if (mt_parse_expect(p, '"'))
        return -1;
    while (mt_parse_accept(p, ',')) {
        mt_parse_space(p);
        if (ptx_unsigned(p, UINT64_MAX, &ignored))
            return -1;
    }
    if (number >= d->nfiles) {
        unsigned more = (unsigned)number + 64;
        LLVMMetadataRef *files = realloc(d->files, more * sizeof *files);
        if (!files)
            return mt_parse_no_memory(p);
        memset(files + d->nfiles, 0, (more - d->nfiles) * sizeof *files);
        d->files = files;
        d->nfiles = more;
    }
    d->files[number] = d->b ? debug_file(x, path) : NULL;
    return 0;
}

/* Skips `word` if it is at the cursor. */
static int debug_word(struct mt_parser *p, const char *word)
{
    size_t n = strlen(word);
    mt_parse_space(p);
    if ((size_t)(p->end - p->at) < n || strncmp(p->at, word, n) != 0)
        return 0;
    p->at += n;
    return 1;
}

static int debug_three(struct mt_parser *p, unsigned *a, unsigned *b, unsigned *c)
{
    unsigned *to[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        uint64_t n = 0;
        mt_parse_space(p);
        if (ptx_unsigned(p, UINT32_MAX, &n))
            return -1;
        *to[i] = (unsigned)n;
    }
    return 0;
}

/* .loc file line column{, function_name label{+n}{, inlined_at file line column}} */
int mt_ptx_read_location(struct mt_ptx_body *b, struct mt_parser *p)
{
    struct mt_ptx_location at = {.offset = (size_t)(p->at - p->text)};
    uint64_t n;
    if (debug_three(p, &at.file, &at.line, &at.column))
        return -1;
    while (mt_parse_accept(p, ',')) {
        if (debug_word(p, "function_name")) {
            mt_parse_space(p);
            if (!(at.function = mt_parse_name(p, 0)))
                return -1;
            if (mt_parse_accept(p, '+') && ptx_unsigned(p, UINT64_MAX, &n))
                return -1;
        } else if (!debug_word(p, "inlined_at") || debug_three(p, &at.at_file, &at.at_line, &at.at_column)) {
            return mt_parse_fail(p, ".loc is not understood");
        }
    }
    while (debug_word(p, "prologue_end") || debug_word(p, "epilogue_begin") || debug_word(p, "basic_block"))
        ;
    while (debug_word(p, "is_stmt") || debug_word(p, "discriminator")) {
        mt_parse_space(p);
        if (ptx_unsigned(p, UINT64_MAX, &n))
            return -1;
    }
    b->places = mt_parse_grow(p, b->places, b->nplaces, &b->places_cap, sizeof *b->places);
    if (!b->places)
        return -1;
    b->places[b->nplaces++] = at;
    return 0;
}

static LLVMMetadataRef debug_numbered(struct mt_ptx *x, unsigned file)
{
    struct mt_ptx_debug *d = &x->debug;
    return file < d->nfiles && d->files[file] ? d->files[file] : d->own;
}

static LLVMMetadataRef debug_subprogram(struct mt_ptx *x, const char *name, LLVMMetadataRef file,
                                        unsigned line)
{
    struct mt_ptx_debug *d = &x->debug;
    size_t n = strlen(name);
    return LLVMDIBuilderCreateFunction(d->b, file, name, n, name, n, file, line, d->type, 0, 1, line,
                                       LLVMDIFlagZero, 1);
}

/* Makes one entry per key. */
static LLVMMetadataRef debug_keep(struct mt_ptx *x, struct mt_ptx_map *map, const char *key,
                                  LLVMMetadataRef made)
{
    size_t n = strlen(key) + 1;
    char *copy = mt_parse_alloc(&x->p, n);
    if (copy) {
        memcpy(copy, key, n);
        mt_ptx_map_put(map, copy, made);
    }
    return made;
}

/* Returns the function that contains the place's code in the source; with inlining, not the one it is in. */
static LLVMMetadataRef debug_scope(struct mt_ptx_body *b, const struct mt_ptx_location *at, int inlined)
{
    struct mt_ptx *x = b->x;
    LLVMMetadataRef file = debug_numbered(x, at->file), scope, found;
    const char *name = inlined && at->function ? mt_ptx_map_get(&x->strings, at->function) : NULL;
    char key[600];
    if (inlined) {
        name = name ? name : "inlined";
        snprintf(key, sizeof key, "%u %.580s", at->file, name);
        found = mt_ptx_map_get(&x->debug.functions, key);
        return found ? found
                     : debug_keep(x, &x->debug.functions, key, debug_subprogram(x, name, file, at->line));
    }
    scope = b->subprogram;
    if (file == LLVMDIScopeGetFile(scope))
        return scope;
    snprintf(key, sizeof key, "%u %p", at->file, (void *)scope);
    found = mt_ptx_map_get(&x->debug.blocks, key);
    return found ? found
                 : debug_keep(x, &x->debug.blocks, key,
                              LLVMDIBuilderCreateLexicalBlockFile(x->debug.b, scope, file, 0));
}

/* Returns the location of the call that inlined the code: the last place of that name. */
static LLVMMetadataRef debug_caller(struct mt_ptx_body *b, const struct mt_ptx_location *at)
{
    unsigned i = (unsigned)(at - b->places), low = i > NEAR ? i - NEAR : 0;
    while (i-- > low) {
        const struct mt_ptx_location *o = &b->places[i];
        if (o->file == at->at_file && o->line == at->at_line && o->column == at->at_column && o->location)
            return o->location;
    }
    struct mt_ptx_location call = {.file = at->at_file, .line = at->at_line, .column = at->at_column};
    return LLVMDIBuilderCreateDebugLocation(b->x->c, call.line, call.column, debug_scope(b, &call, 0), NULL);
}

static void ptx_say(struct mt_ptx *x, const struct mt_ptx_function *f, const char *text, size_t length);

/* Writes a kernel's source location, and its parameters' names. */
static void debug_say_kernel(struct mt_ptx_body *b, LLVMMetadataRef file, unsigned line)
{
    char *text = NULL;
    size_t size;
    unsigned folder_length, name_length;
    const char *folder = LLVMDIFileGetDirectory(file, &folder_length);
    const char *name = LLVMDIFileGetFilename(file, &name_length);
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return;
    fprintf(f, "memtrace.kernel\t%s\t%.*s%s%.*s\t%u\t0\t", b->f->name, (int)folder_length, folder,
            folder_length ? "/" : "", (int)name_length, name, line);
    for (unsigned i = 0; i < b->f->sig.nparams; i++)
        fprintf(f, "%sarg%u", i ? "," : "", i);
    if (!fclose(f))
        ptx_say(b->x, b->f, text, size);
    free(text);
}

/* Takes the function's debug information from the module that the text was made of. */
static void debug_take_function(struct mt_ptx_body *b)
{
    const struct mt_ptx_origin *o = b->x->source->origin;
    b->subprogram = o->subprogram(o->ctx, b->f->name);
    if (b->subprogram)
        LLVMSetSubprogram(b->f->value, b->subprogram);
    b->here = NULL;
    b->here_line = 0;
    LLVMSetCurrentDebugLocation2(b->l.b, NULL);
}

static void debug_take_place(struct mt_ptx_body *b, size_t offset)
{
    const struct mt_ptx_origin *o = b->x->source->origin;
    for (; b->place < b->nplaces && b->places[b->place].offset <= offset; b->place++)
        if (b->places[b->place].line && b->subprogram)
            b->here = o->location(o->ctx, b->here_line = b->places[b->place].line);
    LLVMSetCurrentDebugLocation2(b->l.b, b->here);
}

void mt_ptx_debug_function(struct mt_ptx_body *b)
{
    struct mt_ptx *x = b->x;
    if (x->source->origin) {
        debug_take_function(b);
        return;
    }
    LLVMMetadataRef file = x->debug.own;
    unsigned line = ptx_line(x, b->f->place);
    for (unsigned i = 0; i < b->nplaces; i++)
        if (b->places[i].line && !b->places[i].at_line) {
            file = debug_numbered(x, b->places[i].file);
            line = b->places[i].line;
            break;
        }
    b->subprogram = debug_subprogram(x, b->f->name, file, line);
    LLVMSetSubprogram(b->f->value, b->subprogram);
    if (b->f->is_kernel)
        debug_say_kernel(b, file, line);
    b->here = LLVMDIBuilderCreateDebugLocation(x->c, line, 0, b->subprogram, NULL);
    LLVMSetCurrentDebugLocation2(b->l.b, b->here);
}

void mt_ptx_debug_at(struct mt_ptx_body *b, size_t offset)
{
    struct mt_ptx *x = b->x;
    if (x->source->origin) {
        debug_take_place(b, offset);
        return;
    }
    if (!x->debug.has_lines) {
        unsigned line = ptx_line(x, offset);
        if (line != b->here_line)
            b->here = LLVMDIBuilderCreateDebugLocation(x->c, line, 0, b->subprogram, NULL);
        b->here_line = line;
    }
    for (; b->place < b->nplaces && b->places[b->place].offset <= offset; b->place++) {
        struct mt_ptx_location *at = &b->places[b->place];
        if (!at->line)
            continue;
        int inlined = at->at_line != 0;
        LLVMMetadataRef caller = inlined ? debug_caller(b, at) : NULL;
        at->location =
            LLVMDIBuilderCreateDebugLocation(x->c, at->line, at->column, debug_scope(b, at, inlined), caller);
        b->here = at->location;
    }
    LLVMSetCurrentDebugLocation2(b->l.b, b->here);
}

/* ---- A map from names to pointers ---- */

/* Returns the name's entry, or NULL; *key is its place in the table. */
static struct mt_ptx_entry *map_entry(const struct mt_ptx_map *map, const char *name, uint64_t *key)
{
    uint64_t n = 0;
    for (*key = mt_hash_text(name); (n = mt_hash_find(&map->places, *key)); ++*key)
        if (strcmp(map->entries[n - 1].name, name) == 0)
            return &map->entries[n - 1];
    return NULL;
}

void *mt_ptx_map_get(const struct mt_ptx_map *map, const char *name)
{
    uint64_t key;
    const struct mt_ptx_entry *e = map_entry(map, name, &key);
    return e ? e->value : NULL;
}

int mt_ptx_map_put(struct mt_ptx_map *map, const char *name, void *value)
{
    uint64_t key;
    struct mt_ptx_entry *e = map_entry(map, name, &key);
    if (!e) {
        size_t n = map->places.count;
        if (mt_grow(&map->entries, &map->room, n + 1, sizeof *e) || mt_hash_put(&map->places, key, n + 1))
            return -1;
        e = &map->entries[n];
    }
    *e = (struct mt_ptx_entry){name, value};
    return 0;
}

void mt_ptx_map_free(struct mt_ptx_map *map)
{
    mt_hash_free(&map->places);
    free(map->entries);
    *map = (struct mt_ptx_map){0};
}

/* The content of a kernel, independent of the rest of the module and of its position: its text and that of
 * the functions it calls, with names that contain the module's counters as numbers in their order,
 * variables as declared, and lines as numbers, too. Two versions of a program with equal content get the
 * same code; lines of one are found in the other by their index in the list. */

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
    unsigned line = ptx_line(x, f->place), lines = 1;
    char *type = LLVMPrintTypeToString(f->sig.type);
    if (f->at && !x->debug.has_lines)
        lines = ptx_line(x, f->end) - line + 1;
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

/* Parts of a module: the base image shared by all kernels, or one kernel with the functions it calls.
 * Functions called by pointer are found in the text: unneeded bodies are not read. */

/* Returns 1 if a function or variable of this name is to be declared at all. */
static int ptx_wants(const struct mt_ptx *x, const char *name, int is_kernel)
{
    const struct mt_ptx_source *s = x->source;
    return s->part == MT_PTX_WHOLE || !is_kernel || (s->part == MT_PTX_KERNEL && !strcmp(name, s->kernel));
}

/* Returns 1 if the part will have this function, as far as known now. */
static int ptx_has(const struct mt_ptx *x, const struct mt_ptx_function *f)
{
    if (x->source->part == MT_PTX_WHOLE || !f->value)
        return f->value != NULL;
    int root = x->source->part == MT_PTX_BASE ? f->taken : f->is_kernel;
    return !x->result->undivided && (root || LLVMGetFirstUse(f->value));
}

LLVMValueRef mt_ptx_address(struct mt_ptx *x, const struct mt_ptx_function *f)
{
    char name[4200];
    if (x->source->part != MT_PTX_KERNEL || !f->at)
        return f->value;
    snprintf(name, sizeof name, MT_DEVICE_PREFIX "%s", f->name);
    LLVMValueRef there = LLVMGetNamedFunction(x->m, name);
    if (!there) {
        there = LLVMAddFunction(x->m, name, f->sig.type);
        for (unsigned i = 0; i < f->sig.nparams; i++)
            if (f->sig.params[i].is_array)
                mt_ptx_pass_in_memory(x, there, 0, &f->sig.params[i], i);
        LLVMAddAttributeAtIndex(
            there, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(x->c, LLVMGetEnumAttributeKindForName("convergent", 10), 0));
    }
    return there;
}

/* ---- the text ------------------------------------------------------------------------------------------ */

static int part_is_word(int c)
{
    return isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static const char *part_word_end(const char *at, const char *end)
{
    while (at < end && part_is_word((unsigned char)*at))
        at++;
    return at;
}

static int part_starts(const char *at, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - at) >= n && !memcmp(at, word, n) &&
           (at + n == end || !part_is_word((unsigned char)at[n]) || at[n] == '.');
}

/* Notes that a function's address is taken. A kernel's, which may be in another image, forbids dividing. */
static int part_take(struct mt_ptx *x, const char *at, const char *end)
{
    struct mt_parser *p = &x->p;
    char *name = mt_parse_alloc(p, (size_t)(end - at) + 1);
    if (!name)
        return mt_parse_no_memory(p);
    memcpy(name, at, (size_t)(end - at));
    name[end - at] = 0;
    struct mt_ptx_function *f = mt_ptx_find_function(x, name);
    if (f && f->is_kernel)
        x->result->undivided = "the address of a kernel is taken";
    if (f)
        f->taken = 1;
    return 0;
}

/* Reads one statement of a body, after its label; returns the text after its words, or NULL on failure. In
 * a call a function's name is the callee; elsewhere it is its address. */
static const char *part_statement(struct mt_ptx *x, const char *at, const char *end)
{
    const char *stop = part_word_end(at, end);
    int call = part_starts(at, end, "call");
    if (part_starts(at, end, ".global") || part_starts(at, end, ".const"))
        x->result->undivided = "a function has a variable of its own in global or constant memory";
    if (part_starts(at, end, ".loc")) { /* ends with its line */
        at = memchr(stop, '\n', (size_t)(end - stop));
        return at ? at : end;
    }
    for (at = stop; at < end && *at != ';' && *at != ':';) {
        int c = (unsigned char)*at;
        if (!part_is_word(c)) {
            at++;
            continue;
        }
        stop = part_word_end(at, end);
        if (!call && (isalpha(c) || c == '_' || c == '$') && part_take(x, at, stop))
            return NULL;
        at = stop;
    }
    return at;
}

/* Skips blanks, comments, strings, guards and ends of statements. */
static const char *part_between(const char *at, const char *end)
{
    while (at < end) {
        if (at + 1 < end && at[0] == '/' && (at[1] == '/' || at[1] == '*')) {
            const char *stop = at[1] == '/' ? memchr(at, '\n', (size_t)(end - at))
                                            : memmem(at + 2, (size_t)(end - at) - 2, "*/", 2);
            at = stop ? stop + 1 : end;
        } else if (*at == '"') {
            const char *stop = memchr(at + 1, '"', (size_t)(end - at) - 1);
            at = stop ? stop + 1 : end;
        } else if (*at == '@') {
            at += at + 1 < end && at[1] == '!' ? 2 : 1;
            at = part_word_end(at, end);
        } else if (part_is_word((unsigned char)*at)) {
            break;
        } else {
            at++;
        }
    }
    return at;
}

static int part_scan(struct mt_ptx *x, const struct mt_ptx_function *f)
{
    const char *end = x->p.text + f->end;
    for (const char *at = part_between(x->p.text + f->at, end); at && at < end; at = part_between(at, end))
        if (!(at = part_statement(x, at, end)))
            return -1;
    return 0;
}

/* ---- the result ---------------------------------------------------------------------------------------- */

static int part_tell_kernels(struct mt_ptx *x)
{
    unsigned n = 0;
    for (const struct mt_ptx_function *f = x->first; f && x->source->content; f = f->next)
        if (f->is_kernel && f->at &&
            (x->source->part == MT_PTX_BASE || ptx_wants(x, f->name, f->is_kernel)) && mt_ptx_content(x, f))
            return -1;
    for (const struct mt_ptx_function *f = x->first; f; f = f->next)
        n += f->is_kernel && f->at;
    if (n < 2 && x->source->part == MT_PTX_BASE)
        x->result->undivided = "it has one kernel";
    return 0;
}

/* Finds the functions whose address is taken, and fills the result's fields for parts. Returns 0 or -1. */
static int ptx_divide(struct mt_ptx *x)
{
    for (struct mt_ptx_function *f = x->first; f; f = f->next)
        if (f->at && part_scan(x, f))
            return -1;
    for (const struct mt_ptx_function *f = x->first; f; f = f->next)
        x->result->pointers |= f->at && f->taken;
    if (x->source->part == MT_PTX_KERNEL)
        return part_tell_kernels(x);
    for (LLVMValueRef g = LLVMGetFirstGlobal(x->m); g; g = LLVMGetNextGlobal(g))
        if (LLVMIsDeclaration(g) && LLVMGetPointerAddressSpace(LLVMTypeOf(g)) != 3)
            x->result->undivided = "it needs variables of other files";
    return x->result->undivided ? 0 : part_tell_kernels(x);
}

/* Drops the functions that the part does not have, once no more can come. The others become internal,
 * except those found by pointer. */
static void ptx_drop_others(struct mt_ptx *x)
{
    int base = x->source->part == MT_PTX_BASE;
    for (struct mt_ptx_function *f = x->first; f; f = f->next) {
        if (!f->value || f->is_kernel)
            continue;
        if (f->done && !(base && f->taken))
            LLVMSetLinkage(f->value, LLVMInternalLinkage);
        else if (f->done)
            LLVMSetLinkage(f->value, LLVMExternalLinkage);
        if (f->done || LLVMGetFirstUse(f->value))
            continue;
        LLVMDeleteFunction(f->value);
        f->value = NULL;
    }
    for (LLVMValueRef g = LLVMGetFirstGlobal(x->m); base && g; g = LLVMGetNextGlobal(g))
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 3 && LLVMGetFirstUse(g))
            x->result->undivided = "a function that is called by pointer has shared memory";
}

/* Declarations of PTX: variables' types, functions with their parameters,
 * kernels' directives, call prototypes. */

#define MAX_PARAMS 4096
#define MAX_BYTES (1ull << 32) /* maximum of one variable */
#define LARGE 4096             /* bytes of a parameter; a kernel may always have this many */

int mt_ptx_linkage_of(const char *word, enum mt_ptx_linkage *linkage)
{
    static const char *const words[] = {"", ".visible", ".weak", ".extern", ".common"};
    for (unsigned i = 1; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i])) {
            *linkage = (enum mt_ptx_linkage)i;
            return 1;
        }
    return 0;
}

/* ---- types --------------------------------------------------------------------------------------------- */

static unsigned declare_bytes(const struct mt_ptx_variable *v)
{
    unsigned bits = v->type.bits * v->type.lanes;
    return bits < 8 ? 1 : bits / 8;
}

LLVMTypeRef mt_ptx_type_of(struct mt_ptx *x, const struct mt_ptx_variable *v)
{
    unsigned bytes = declare_bytes(v);
    if (!v->is_array)
        return LLVMIntTypeInContext(x->c, 8 * bytes);
    /* As wide as it is aligned, so that the type implies the alignment. */
    uint64_t size = v->count * bytes;
    unsigned unit =
        v->space == 'p' ? (v->align < 8 ? v->align : 8) : bytes; /* no i128: LLVM 19 cannot pass it */
    unit = unit && size % unit == 0 ? unit : bytes;
    return LLVMArrayType2(LLVMIntTypeInContext(x->c, 8 * unit), size / unit);
}

/* ---- variables ----------------------------------------------------------------------------------------- */

/* Reads [4][8], []: the elements. */
static int declare_dimensions(struct mt_parser *p, struct mt_ptx_variable *v)
{
    uint64_t n = 0;
    int first = 1;
    while (mt_parse_accept(p, '[')) {
        v->is_array = 1;
        if (mt_parse_accept(p, ']')) {
            v->is_unsized = 1;
            v->row = 1;
            first = 0;
            continue;
        }
        mt_parse_space(p);
        if (ptx_unsigned(p, MAX_BYTES, &n) || mt_parse_expect(p, ']'))
            return -1;
        if (n && v->count > MAX_BYTES / n)
            return mt_parse_fail(p, "%.100s is too large", v->name);
        v->row = first ? 1 : v->row * n;
        first = 0;
        v->count *= n;
    }
    if (v->is_unsized)
        v->count = 0;
    if (v->count > MAX_BYTES / 16)
        return mt_parse_fail(p, "%.100s is too large", v->name);
    return 0;
}

/* .attribute(.managed, .unified(1, 2)) */
static int declare_attributes(struct mt_parser *p, struct mt_ptx_variable *v)
{
    unsigned depth = 0;
    if (!mt_parse_accept(p, '('))
        return mt_parse_fail(p, "'(' expected after .attribute");
    for (depth = 1; depth;) {
        mt_parse_space(p);
        if (mt_parse_peek(p, 0) == '.') {
            const char *word = mt_parse_name(p, 1);
            if (!word)
                return -1;
            v->managed |= !strcmp(word, ".managed");
        } else if (p->at == p->end) {
            return mt_parse_fail(p, "')' expected at the end");
        } else {
            int c = *p->at++;
            depth += c == '(' ? 1 : c == ')' ? -1u : 0;
        }
    }
    return 0;
}

/* Reads a word before the name. Returns 1 if it was the type. */
static int declare_word(struct mt_parser *p, const char *word, struct mt_ptx_variable *v, unsigned *vector)
{
    static const char *const hints[] = {".ptr", ".const", ".global", ".local", ".shared", ".unified"};
    static const char *const opaque[] = {".texref", ".samplerref", ".surfref"};
    uint64_t n = 0;
    if (!strcmp(word, ".align")) {
        mt_parse_space(p);
        if (ptx_unsigned(p, 1 << 20, &n))
            return -1;
        if (!n || (n & (n - 1)))
            return mt_parse_fail(p, "alignment is not a power of two");
        v->align = (unsigned)n;
        return 0;
    }
    if (!strcmp(word, ".attribute"))
        return declare_attributes(p, v);
    for (unsigned i = 0; i < sizeof hints / sizeof *hints; i++)
        if (!strcmp(word, hints[i]))
            return 0;
    if (!strcmp(word, ".v2") || !strcmp(word, ".v4") || !strcmp(word, ".v8")) {
        *vector = (unsigned)(word[2] - '0');
        return 0;
    }
    for (unsigned i = 0; i < sizeof opaque / sizeof *opaque; i++)
        if (!strcmp(word, opaque[i])) {
            v->type = (struct mt_asm_type){'b', 64, 1};
            v->opaque = 1;
            return 1;
        }
    if (*word == '.' && mt_asm_type(word + 1, &v->type))
        return 1;
    return mt_parse_fail(p, "%.60s is not understood in a declaration", word);
}

int mt_ptx_read_variable(struct mt_ptx *x, struct mt_parser *p, char space, struct mt_ptx_variable *v)
{
    unsigned vector = 0;
    int typed = 0;
    *v = (struct mt_ptx_variable){.space = space, .count = 1, .argument = -1};
    for (;;) {
        mt_parse_space(p);
        if (mt_parse_peek(p, 0) != '.')
            break;
        const char *word = mt_parse_name(p, 1);
        unsigned before = v->align;
        int was = word ? declare_word(p, word, v, &vector) : -1;
        if (was < 0)
            return -1;
        if (typed) /* .ptr .align: of the pointer's target */
            v->align = before;
        typed |= was;
    }
    if (!typed)
        return mt_parse_fail(p, "a declaration without a type");
    if (!(v->name = mt_parse_name(p, 0)))
        return -1;
    if (vector) {
        v->is_array = 1;
        v->count = vector;
        if (!v->align)
            v->align = vector * declare_bytes(v);
    }
    if (declare_dimensions(p, v))
        return -1;
    if (v->align < declare_bytes(v))
        v->align = declare_bytes(v);
    return 0;
}

/* ---- parameters ---------------------------------------------------------------------------------------- */

/* Reads "(.param .b32 a, .reg .b64 %b)" after the '('. */
static int declare_list(struct mt_ptx *x, struct mt_parser *p, struct mt_ptx_variable **list, unsigned *n)
{
    unsigned cap = 0;
    *list = NULL;
    *n = 0;
    if (mt_parse_accept(p, ')'))
        return 0;
    do {
        mt_parse_space(p);
        const char *word = mt_parse_name(p, 1);
        if (!word)
            return -1;
        if (strcmp(word, ".param") && strcmp(word, ".reg"))
            return mt_parse_fail(p, ".param or .reg expected instead of '%.40s'", word);
        if (*n == MAX_PARAMS)
            return mt_parse_fail(p, "too many parameters");
        if (!(*list = mt_parse_grow(p, *list, *n, &cap, sizeof **list)))
            return -1;
        struct mt_ptx_variable *v = &(*list)[*n];
        if (mt_ptx_read_variable(x, p, word[1], v))
            return -1;
        v->argument = (int)(*n)++;
    } while (mt_parse_accept(p, ','));
    return mt_parse_expect(p, ')');
}

/* Returns the type of a kernel's parameter; 64-bit ones are taken for pointers, which pass any other value
 * unchanged. */
static LLVMTypeRef declare_param_type(struct mt_ptx *x, const struct mt_ptx_variable *v, int is_kernel)
{
    if (v->is_array || (is_kernel && v->type.bits == 64 && v->type.kind != 'f'))
        return LLVMPointerTypeInContext(x->c, 0);
    if (v->space == 'r')
        return LLVMIntTypeInContext(x->c, v->type.bits * v->type.lanes);
    return mt_ptx_type_of(x, v);
}

/* Returns the result type; several results are a struct. */
static LLVMTypeRef declare_result_type(struct mt_ptx *x, struct mt_ptx_signature *sig)
{
    LLVMTypeRef types[MT_PTX_RESULTS];
    for (unsigned i = 0; i < sig->nresults; i++) {
        struct mt_ptx_variable *v = &sig->results[i];
        v->argument = -1;
        v->result = 1;
        types[i] =
            v->space == 'r' ? LLVMIntTypeInContext(x->c, v->type.bits * v->type.lanes) : mt_ptx_type_of(x, v);
    }
    return sig->nresults == 1 ? types[0] : LLVMStructTypeInContext(x->c, types, sig->nresults, 0);
}

int mt_ptx_ask(struct mt_parser *p, const struct mt_ptx_variable *list, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint64_t bytes = list[i].count * declare_bytes(&list[i]);
        if (bytes > LARGE && mt_parse_ask(p, 128 * bytes, list[i].name))
            return -1;
    }
    return 0;
}

static int declare_type(struct mt_ptx *x, struct mt_parser *p, struct mt_ptx_signature *sig, int is_kernel)
{
    if (mt_ptx_ask(p, sig->results, sig->nresults) ||
        (!is_kernel && mt_ptx_ask(p, sig->params, sig->nparams)))
        return -1;
    LLVMTypeRef result = LLVMVoidTypeInContext(x->c), *types = calloc(sig->nparams + 1, sizeof *types);
    if (!types)
        return mt_parse_no_memory(p);
    if (sig->nresults > MT_PTX_RESULTS) {
        free(types);
        return mt_parse_fail(p, "a function with %u results", sig->nresults);
    }
    if (sig->nresults)
        result = declare_result_type(x, sig);
    for (unsigned i = 0; i < sig->nparams; i++)
        types[i] = declare_param_type(x, &sig->params[i], is_kernel);
    sig->type = LLVMFunctionType(result, types, sig->nparams, 0);
    free(types);
    return 0;
}

void mt_ptx_pass_in_memory(struct mt_ptx *x, LLVMValueRef owner, int is_call, const struct mt_ptx_variable *v,
                           unsigned index)
{
    LLVMAttributeRef list[] = {
        LLVMCreateTypeAttribute(x->c, LLVMGetEnumAttributeKindForName("byval", 5), mt_ptx_type_of(x, v)),
        LLVMCreateEnumAttribute(x->c, LLVMGetEnumAttributeKindForName("align", 5), v->align)};
    for (int i = 0; i < 2; i++)
        if (is_call)
            LLVMAddCallSiteAttribute(owner, index + 1, list[i]);
        else
            LLVMAddAttributeAtIndex(owner, index + 1, list[i]);
}

/* ---- directives of functions --------------------------------------------------------------------------- */

static void ptx_annotate(struct mt_ptx *x, LLVMValueRef global, const char *key, uint64_t value)
{
    LLVMMetadataRef fields[] = {LLVMValueAsMetadata(global), LLVMMDStringInContext2(x->c, key, strlen(key)),
                                LLVMValueAsMetadata(LLVMConstInt(LLVMInt32TypeInContext(x->c), value, 0))};
    LLVMAddNamedMetadataOperand(x->m, "nvvm.annotations",
                                LLVMMetadataAsValue(x->c, LLVMMDNodeInContext2(x->c, fields, 3)));
}

/* Adds a fact to a function in the format of the AST side's annotations (unit/options.h). */
static void ptx_say(struct mt_ptx *x, const struct mt_ptx_function *f, const char *text, size_t length)
{
    LLVMMetadataRef fields[2] = {LLVMMDStringInContext2(x->c, f->name, strlen(f->name)),
                                 LLVMMDStringInContext2(x->c, text, length)};
    LLVMAddNamedMetadataOperand(x->m, "memtrace.facts",
                                LLVMMetadataAsValue(x->c, LLVMMDNodeInContext2(x->c, fields, 2)));
}

static void declare_cluster(struct mt_ptx *x, const struct mt_ptx_function *f, const uint64_t *n)
{
    char text[128];
    int length = snprintf(text, sizeof text, "memtrace.cluster\t%u\t%u\t%u", (unsigned)n[0], (unsigned)n[1],
                          (unsigned)n[2]);
    ptx_say(x, f, text, (size_t)length);
}

/* Reads a directive between parameters and body. */
static int declare_directive(struct mt_ptx *x, struct mt_ptx_function *f, const char *word)
{
    static const struct {
        const char *word, *key; /* key: annotation; followed by x, y and z if there may be three */
        unsigned numbers;
    } table[] = {{".maxntid", "maxntid", 3},
                 {".reqntid", "reqntid", 3},
                 {".minnctapersm", "minctasm", 1},
                 {".maxnreg", "maxnreg", 1},
                 {".reqnctapercluster", NULL, 3},
                 {".maxnctapersm", "", 1},
                 {".maxclusterrank", "maxclusterrank", 1},
                 {".abi_preserve", "", 1},
                 {".abi_preserve_control", "", 1},
                 {".explicitcluster", "", 0},
                 {".blocksareclusters", "", 0},
                 {".noreturn", "", 0}};
    struct mt_parser *p = &x->p;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        uint64_t n[3] = {1, 1, 1};
        unsigned have = 0;
        if (strcmp(word, table[i].word))
            continue;
        while (have < table[i].numbers) {
            mt_parse_space(p);
            if (ptx_unsigned(p, UINT32_MAX, &n[have++]))
                return -1;
            if (have < table[i].numbers && !mt_parse_accept(p, ','))
                break;
        }
        if (!f->value) /* a kernel that is not needed */
            return 0;
        if (!table[i].key)
            declare_cluster(x, f, n);
        else if (table[i].numbers == 1 && *table[i].key)
            ptx_annotate(x, f->value, table[i].key, n[0]);
        for (unsigned d = 0; table[i].key && table[i].numbers == 3 && d < 3; d++) {
            char key[16];
            snprintf(key, sizeof key, "%s%c", table[i].key, "xyz"[d]);
            ptx_annotate(x, f->value, key, n[d]);
        }
        return 0;
    }
    if (strcmp(word, ".pragma"))
        return mt_parse_fail(p, "directive %.60s is not known", word);
    while (p->at < p->end && *p->at != ';' && *p->at != '{')
        p->at++;
    if (mt_parse_peek(p, 0) == ';')
        p->at++;
    return 0;
}

/* ---- functions ----------------------------------------------------------------------------------------- */

/* Skips to after the '}' that matches the '{' before the cursor. */
static int declare_skip_body(struct mt_parser *p)
{
    for (unsigned depth = 1; depth;) {
        mt_parse_space(p);
        if (p->at == p->end)
            return mt_parse_fail(p, "'}' missing at the end");
        int c = *p->at++;
        depth += c == '{' ? 1 : c == '}' ? -1u : 0;
        while (c == '"' && p->at < p->end && *p->at++ != '"')
            ;
    }
    return 0;
}

static void declare_link(LLVMValueRef f, enum mt_ptx_linkage linkage, int defined, int is_kernel)
{
    if (linkage == MT_PTX_WEAK && defined)
        LLVMSetLinkage(f, LLVMWeakODRLinkage);
    else if (linkage == MT_PTX_STATIC && defined && !is_kernel)
        LLVMSetLinkage(f, LLVMInternalLinkage);
}

static void declare_target(struct mt_ptx *x, LLVMValueRef f)
{
    static const char *const attributes[] = {"nounwind", "convergent", "null_pointer_is_valid"};
    char cpu[32];
    for (unsigned i = 0; i < sizeof attributes / sizeof *attributes; i++)
        LLVMAddAttributeAtIndex(
            f, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(
                x->c, LLVMGetEnumAttributeKindForName(attributes[i], strlen(attributes[i])), 0));
    snprintf(cpu, sizeof cpu, "sm_%u",
             x->architecture < 90 ? x->architecture : 90); /* newest one known to LLVM 19 */
    LLVMAddTargetDependentFunctionAttr(f, "target-cpu", cpu);
    snprintf(cpu, sizeof cpu, "%u", x->architecture);
    LLVMAddTargetDependentFunctionAttr(f, MT_PTX_ARCHITECTURE, cpu);
    LLVMAddTargetDependentFunctionAttr(f, "target-features", "+ptx83");
}

static LLVMValueRef declare_value(struct mt_ptx *x, struct mt_ptx_function *f)
{
    LLVMValueRef value = LLVMAddFunction(x->m, f->name, f->sig.type);
    for (unsigned i = 0; i < f->sig.nparams; i++) {
        const struct mt_ptx_variable *v = &f->sig.params[i];
        char name[32];
        /* a function's argument has a name that cannot be taken for a kernel's (trace/instrument.c ignores
         * names with a dot) */
        snprintf(name, sizeof name, f->is_kernel ? "arg%u" : "arg.%u", i);
        LLVMSetValueName2(LLVMGetParam(value, i), name, strlen(name));
        if (v->is_array)
            mt_ptx_pass_in_memory(x, value, 0, v, i);
    }
    declare_target(x, value);
    if (f->is_kernel)
        ptx_annotate(x, value, "kernel", 1);
    return value;
}

struct mt_ptx_function *mt_ptx_find_function(struct mt_ptx *x, const char *name)
{
    for (unsigned hops = 0; hops < 16; hops++) {
        const char *other = mt_ptx_map_get(&x->aliases, name);
        if (!other)
            break;
        name = other;
    }
    return mt_ptx_map_get(&x->functions, name);
}

/* Returns the record of that name, which may have been declared before. NULL on failure. */
static struct mt_ptx_function *declare_record(struct mt_ptx *x, const char *name,
                                              const struct mt_ptx_signature *sig, int is_kernel)
{
    struct mt_ptx_function *f = mt_ptx_map_get(&x->functions, name);
    if (f) {
        if (f->sig.type != sig->type || f->is_kernel != is_kernel) {
            mt_parse_fail(&x->p, "%.100s was declared otherwise", name);
            return NULL;
        }
        if (!f->at)
            f->sig = *sig; /* its names count */
        return f;
    }
    if (LLVMGetNamedGlobal(x->m, name)) {
        mt_parse_fail(&x->p, "%.100s is a variable, too", name);
        return NULL;
    }
    f = mt_parse_alloc(&x->p, sizeof *f);
    if (!f || mt_ptx_map_put(&x->functions, name, f)) {
        mt_parse_no_memory(&x->p);
        return NULL;
    }
    *f = (struct mt_ptx_function){.name = name, .sig = *sig, .is_kernel = is_kernel};
    f->value = ptx_wants(x, name, is_kernel) ? declare_value(x, f) : NULL;
    if (x->last)
        x->last->next = f;
    else
        x->first = f;
    x->last = f;
    return f;
}

static int ptx_read_function(struct mt_ptx *x, enum mt_ptx_linkage linkage, int is_kernel)
{
    struct mt_parser *p = &x->p;
    struct mt_ptx_signature sig = {0};
    if (mt_parse_accept(p, '(') && declare_list(x, p, &sig.results, &sig.nresults))
        return -1;
    mt_parse_space(p);
    while (mt_parse_peek(p, 0) == '.') { /* .attribute(.unified(…)) */
        struct mt_ptx_variable ignored = {0};
        const char *word = mt_parse_name(p, 1);
        if (!word || strcmp(word, ".attribute") || declare_attributes(p, &ignored))
            return mt_parse_fail(p, "%.60s is not understood before a function's name", word ? word : "");
        mt_parse_space(p);
    }
    size_t place = (size_t)(p->at - p->text);
    const char *name = mt_parse_name(p, 0);
    if (!name || (mt_parse_accept(p, '(') && declare_list(x, p, &sig.params, &sig.nparams)) ||
        declare_type(x, p, &sig, is_kernel))
        return -1;
    struct mt_ptx_function *f = declare_record(x, name, &sig, is_kernel);
    if (!f)
        return -1;
    for (;;) {
        mt_parse_space(p);
        if (mt_parse_peek(p, 0) != '.')
            break;
        const char *word = mt_parse_name(p, 1);
        if (!word || declare_directive(x, f, word))
            return -1;
    }
    if (mt_parse_accept(p, ';'))
        return 0;
    if (mt_parse_expect(p, '{'))
        return -1;
    if (f->at)
        return mt_parse_fail(p, "%.100s is defined twice", name);
    f->at = (size_t)(p->at - p->text);
    f->place = place;
    f->sig = sig;
    if (declare_skip_body(p))
        return -1;
    f->end = (size_t)(p->at - p->text) - 1;
    if (f->value)
        declare_link(f->value, linkage, 1, is_kernel);
    return 0;
}

int mt_ptx_read_prototype(struct mt_ptx *x, struct mt_parser *p, struct mt_ptx_signature *sig)
{
    *sig = (struct mt_ptx_signature){0};
    if (mt_parse_accept(p, '(') && declare_list(x, p, &sig->results, &sig->nresults))
        return -1;
    mt_parse_space(p);
    if (!mt_parse_name(p, 0) || (mt_parse_accept(p, '(') && declare_list(x, p, &sig->params, &sig->nparams)))
        return -1;
    while (p->at < p->end && *p->at != ';') /* .noreturn and the like */
        p->at++;
    return mt_parse_expect(p, ';') || declare_type(x, p, sig, 0) ? -1 : 0;
}

/* Variables of modules and their initialisers: numbers, addresses of variables and functions, single bytes
 * of these. */

enum { TAIL = 4096 }; /* bytes of trailing zeros that are not reported */

struct mt_ptx_pending {
    struct mt_ptx_pending *next;
    struct mt_ptx_variable v;
    size_t at; /* position after '=' */
};

static unsigned variable_space(const struct mt_ptx_variable *v)
{
    return v->space == 's' ? 3 : v->space == 'c' ? 4 : 1;
}

/* Sets the linkage: even a variable of one file is known to the host by name, as its copies may change it;
 * clang's can, too. */
static void variable_link(struct mt_ptx *x, struct mt_ptx_variable *v, enum mt_ptx_linkage linkage)
{
    LLVMValueRef g = v->value;
    LLVMTypeRef type = LLVMGlobalGetValueType(g);
    if (linkage == MT_PTX_EXTERN || v->is_unsized)
        return;
    if (v->space == 's') {
        LLVMSetInitializer(g, LLVMGetUndef(type));
        LLVMSetLinkage(g, linkage == MT_PTX_STATIC ? LLVMInternalLinkage : LLVMExternalLinkage);
        return;
    }
    if (x->source->part == MT_PTX_KERNEL) /* it is in the base */
        return;
    LLVMSetInitializer(g, LLVMConstNull(type));
    LLVMSetExternallyInitialized(g, 1);
    if (linkage == MT_PTX_WEAK || linkage == MT_PTX_COMMON)
        LLVMSetLinkage(g, LLVMWeakAnyLinkage);
}

int mt_ptx_declare_variable(struct mt_ptx *x, struct mt_ptx_variable *v, enum mt_ptx_linkage linkage,
                            int local)
{
    LLVMValueRef old = local ? NULL : LLVMGetNamedGlobal(x->m, v->name);
    if (v->opaque)
        return mt_parse_fail(&x->p, "%.100s: texture, sampler and surface references are not supported",
                             v->name);
    if (!local && mt_ptx_map_get(&x->functions, v->name))
        return mt_parse_fail(&x->p, "%.100s is a function, too", v->name);
    if (old && (linkage == MT_PTX_EXTERN || LLVMIsDeclaration(old))) { /* .extern, then defined or repeated */
        v->value = old;
        if (linkage == MT_PTX_EXTERN)
            return 0;
        LLVMSetValueName2(old, "", 0);
    } else if (old) {
        return mt_parse_fail(&x->p, "%.100s is defined twice", v->name);
    }
    v->value = LLVMAddGlobalInAddressSpace(x->m, mt_ptx_type_of(x, v), v->name, variable_space(v));
    LLVMSetAlignment(v->value, v->align);
    variable_link(x, v, local && linkage == MT_PTX_STATIC && v->space == 's' ? MT_PTX_STATIC : linkage);
    if (v->managed) {
        ptx_annotate(x, v->value, "managed", 1);
        LLVMSetSection(v->value, MT_MANAGED_SECTION); /* lower.c */
    }
    if (old) {
        LLVMReplaceAllUsesWith(old, v->value);
        LLVMDeleteGlobal(old);
    }
    return 0;
}

int mt_ptx_remember_initialiser(struct mt_ptx *x, struct mt_parser *p, const struct mt_ptx_variable *v)
{
    struct mt_ptx_pending *n;
    if (!mt_parse_accept(p, '='))
        return 0;
    size_t length = strlen(v->name) + 1;
    char *name = mt_parse_alloc(&x->p, length);
    if (!name || !(n = mt_parse_alloc(&x->p, sizeof *n)))
        return mt_parse_no_memory(p);
    *n = (struct mt_ptx_pending){NULL, *v, (size_t)(p->at - p->text)};
    n->v.name = memcpy(name, v->name, length);
    *x->pending_end = n;
    x->pending_end = &n->next;
    while (p->at < p->end && *p->at != ';' && *p->at != ',') /* to the ',' between variables, or the end */
        if (*p->at++ == '{')
            for (unsigned depth = 1; depth && p->at < p->end; p->at++)
                depth += *p->at == '{' ? 1 : *p->at == '}' ? -1u : 0;
    return 0;
}

/* ---- initial values ------------------------------------------------------------------------------------ */

struct address {
    uint64_t at; /* bytes from the start of the variable */
    unsigned size;
    LLVMValueRef value; /* a pointer */
};

struct image {
    struct mt_ptx *x;
    const struct mt_ptx_variable *v;
    unsigned char *bytes;
    uint64_t size, used, count; /* bytes; end of the last given one; elements so far */
    uint64_t cap;
    struct address *addresses;
    unsigned naddresses, addresses_cap;
};

/* Makes room for one more element; NULL on failure. */
static unsigned char *variable_room(struct image *i, unsigned bytes)
{
    uint64_t at = i->count * bytes;
    if (i->size && at + bytes > i->size) {
        mt_parse_fail(&i->x->p, "%.100s has more values than elements", i->v->name);
        return NULL;
    }
    if (at + bytes > i->cap) {
        uint64_t cap = at + bytes > 512 ? 2 * (at + bytes) : 1024;
        unsigned char *more = realloc(i->bytes, cap);
        if (!more) {
            mt_parse_no_memory(&i->x->p);
            return NULL;
        }
        i->bytes = more;
        memset(more + i->cap, 0, cap - i->cap);
        i->cap = cap;
    }
    i->used = at + bytes;
    i->count++;
    return i->bytes + at;
}

static uint64_t variable_bits(const struct mt_asm_operand *o, struct mt_asm_type t)
{
    double d;
    float f;
    uint32_t word;
    if (t.kind != 'f' || (o->kind == MT_ASM_F32 && t.bits == 32) || (o->kind == MT_ASM_F64 && t.bits == 64))
        return o->bits;
    if (o->kind == MT_ASM_F32) {
        word = (uint32_t)o->bits;
        memcpy(&f, &word, sizeof f);
        d = (double)f;
    } else if (o->kind == MT_ASM_F64) {
        memcpy(&d, &o->bits, sizeof d);
    } else {
        d = (double)(int64_t)o->bits;
    }
    if (t.bits == 64) {
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return bits;
    }
    f = (float)d;
    memcpy(&word, &f, sizeof word);
    return t.bits == 32 ? word : o->bits;
}

/* Reads "name", "name+8", "generic(name)+8": returns a pointer, or NULL on failure. */
static LLVMValueRef variable_address(struct mt_ptx *x)
{
    struct mt_parser *p = &x->p;
    LLVMTypeRef i8 = LLVMInt8TypeInContext(x->c);
    mt_parse_space(p);
    const char *name = mt_parse_name(p, 0);
    int generic = name && !strcmp(name, "generic") && mt_parse_accept(p, '(');
    if (generic) {
        mt_parse_space(p);
        name = mt_parse_name(p, 0);
    }
    if (!name)
        return NULL;
    struct mt_ptx_function *f = mt_ptx_find_function(x, name);
    LLVMValueRef v = f ? f->value : LLVMGetNamedGlobal(x->m, name);
    if (f)
        f->taken = 1;
    if (!v) {
        mt_parse_fail(p, "'%.100s' is not declared", name);
        return NULL;
    }
    int64_t offset = 0;
    for (int closed = !generic;;) {
        if (!closed && mt_parse_accept(p, ')'))
            closed = 1;
        int minus = mt_parse_accept(p, '-');
        if (!minus && !mt_parse_accept(p, '+')) {
            if (closed)
                break;
            mt_parse_fail(p, "')' expected after %.100s", name);
            return NULL;
        }
        struct mt_asm_operand o = {0};
        mt_parse_space(p);
        if (mt_parse_number(p, &o))
            return NULL;
        offset += (int64_t)(minus ? 0 - o.bits : o.bits);
    }
    LLVMValueRef by = LLVMConstInt(LLVMInt64TypeInContext(x->c), (uint64_t)offset, 1);
    v = offset ? LLVMConstGEP2(i8, v, &by, 1) : v;
    return generic && !f ? LLVMConstAddrSpaceCast(v, LLVMPointerTypeInContext(x->c, 0)) : v;
}

/* Adds an element that is an address; mask: one byte of it, as in 0xFF00(name). */
static int variable_put_address(struct image *i, unsigned bytes, uint64_t mask, LLVMValueRef value)
{
    struct mt_parser *p = &i->x->p;
    struct address *last = i->naddresses ? &i->addresses[i->naddresses - 1] : NULL;
    uint64_t at = i->count * bytes;
    unsigned nth = 0;
    if (!value || !variable_room(i, bytes))
        return -1;
    if (mask) {
        while (nth < 8 && mask >> (8 * nth) != 0xff)
            nth++;
        if (bytes != 1 || nth == 8)
            return mt_parse_fail(p, "the mask of an address is not one byte of it");
        if (nth) {
            if (!last || last->value != value || last->size != nth || last->at + nth != at)
                return mt_parse_fail(p, "the bytes of an address are not in their order");
            last->size++;
            return 0;
        }
    }
    i->addresses = mt_parse_grow(p, i->addresses, i->naddresses, &i->addresses_cap, sizeof *i->addresses);
    if (!i->addresses)
        return -1;
    i->addresses[i->naddresses++] = (struct address){at, bytes, value};
    return 0;
}

static int variable_element(struct image *i)
{
    struct mt_parser *p = &i->x->p;
    unsigned bits = i->v->type.bits * i->v->type.lanes, bytes = bits < 8 ? 1 : bits / 8;
    struct mt_asm_operand o = {0};
    mt_parse_space(p);
    int minus = mt_parse_peek(p, 0) == '-';
    if (!mt_parse_constant(p, &o, 0)) {
        mt_parse_accept(p, '-');
        int c = mt_parse_peek(p, 0);
        if ((c < '0' || c > '9') && c != '.' && !minus)
            return variable_put_address(i, bytes, 0, variable_address(i->x));
        mt_parse_space(p);
        if (mt_parse_number(p, &o))
            return -1;
    }
    if (o.kind == MT_ASM_INT && mt_parse_accept(p, '(')) {
        LLVMValueRef value = variable_address(i->x);
        return variable_put_address(i, bytes, o.bits, value) || mt_parse_expect(p, ')') ? -1 : 0;
    }
    if (minus && o.kind != MT_ASM_INT)
        o.bits ^= 1ull << (o.kind == MT_ASM_F32 ? 31 : 63);
    unsigned char *to = variable_room(i, bytes);
    uint64_t value = variable_bits(&o, i->v->type);
    if (!to)
        return -1;
    memcpy(to, &value, bytes < 8 ? bytes : 8);
    if (bytes == 16 && minus && o.kind == MT_ASM_INT)
        memset(to + 8, 0xff, 8);
    return 0;
}

static int variable_list(struct image *i, unsigned depth)
{
    struct mt_parser *p = &i->x->p;
    unsigned bits = i->v->type.bits * i->v->type.lanes, bytes = bits < 8 ? 1 : bits / 8;
    if (!mt_parse_accept(p, '{'))
        return variable_element(i);
    if (depth == 2)
        return mt_parse_fail(p, "%.100s: values in more than two dimensions", i->v->name);
    uint64_t first = i->count;
    if (!mt_parse_accept(p, '}')) {
        do {
            if (variable_list(i, depth + 1))
                return -1;
        } while (mt_parse_accept(p, ','));
        if (mt_parse_expect(p, '}'))
            return -1;
    }
    if (depth == 1 && i->count < first + i->v->row &&
        mt_parse_ask(p, (first + i->v->row - i->count) * bytes, i->v->name))
        return -1;
    while (depth == 1 && i->v->row > 1 && i->count < first + i->v->row)
        if (!variable_room(i, bytes))
            return -1;
    return 0;
}

/* ---- as constants -------------------------------------------------------------------------------------- */

static LLVMValueRef variable_bytes(struct mt_ptx *x, const unsigned char *bytes, uint64_t n)
{
    return LLVMConstStringInContext2(x->c, (const char *)bytes, n, 1);
}

/* Returns zeros that take no memory, for any number. */
static LLVMValueRef variable_zeros(struct mt_ptx *x, uint64_t n)
{
    return LLVMConstNull(LLVMArrayType2(LLVMInt8TypeInContext(x->c), n));
}

/* Returns numbers with the variable's declared type, unless most of it is zeros. */
static LLVMValueRef variable_numbers(struct image *i, unsigned bytes)
{
    LLVMTypeRef type = LLVMIntTypeInContext(i->x->c, 8 * bytes);
    uint64_t n = (i->size - i->used > TAIL ? i->used : i->size) / bytes;
    LLVMValueRef *list = malloc((n + 1) * sizeof *list), value;
    for (uint64_t e = 0; list && e < n; e++) {
        uint64_t words[2] = {0, 0};
        if ((e + 1) * bytes <= i->cap)
            memcpy(words, i->bytes + e * bytes, bytes);
        list[e] = LLVMConstIntOfArbitraryPrecision(type, bytes > 8 ? 2 : 1, words);
    }
    value = !list ? NULL : i->v->is_array ? LLVMConstArray2(type, list, n) : list[0];
    free(list);
    if (value && n * bytes < i->size) {
        LLVMValueRef parts[] = {value, variable_zeros(i->x, i->size - n * bytes)};
        value = LLVMConstStructInContext(i->x->c, parts, 2, 1);
    }
    return value;
}

static LLVMValueRef variable_mixed(struct image *i)
{
    LLVMContextRef c = i->x->c;
    LLVMValueRef *list = malloc((2 * (size_t)i->naddresses + 3) * sizeof *list), value = NULL;
    unsigned n = 0;
    uint64_t at = 0;
    for (unsigned a = 0; list && a < i->naddresses; a++) {
        const struct address *one = &i->addresses[a];
        if (one->at > at)
            list[n++] = variable_bytes(i->x, i->bytes + at, one->at - at);
        list[n++] = one->size == 8 ? one->value
                                   : LLVMConstPtrToInt(one->value, LLVMIntTypeInContext(c, 8 * one->size));
        at = one->at + one->size;
    }
    if (list && at < i->used)
        list[n++] = variable_bytes(i->x, i->bytes + at, i->used - at);
    if (list && i->used < i->size)
        list[n++] = variable_zeros(i->x, i->size - i->used);
    if (list)
        value = LLVMConstStructInContext(c, list, n, 1);
    free(list);
    return value;
}

/* Sets the variable's value, and the type that comes with it. */
static int variable_set(struct image *i, LLVMValueRef value)
{
    struct mt_ptx *x = i->x;
    LLVMValueRef old = i->v->value, g = old;
    size_t length;
    if (!value)
        return mt_parse_no_memory(&x->p);
    if (LLVMTypeOf(value) != LLVMGlobalGetValueType(old)) {
        char *name = strdup(LLVMGetValueName2(old, &length));
        LLVMSetValueName2(old, "", 0);
        g = LLVMAddGlobalInAddressSpace(x->m, LLVMTypeOf(value), name ? name : "", variable_space(i->v));
        free(name);
        LLVMSetAlignment(g, i->v->align);
        LLVMSetLinkage(g, LLVMGetLinkage(old));
        LLVMSetExternallyInitialized(g, 1);
        LLVMReplaceAllUsesWith(old, g);
        LLVMDeleteGlobal(old);
    }
    LLVMSetInitializer(g, value);
    return 0;
}

static int variable_initialise(struct mt_ptx *x, const struct mt_ptx_pending *n)
{
    struct image i = {.x = x, .v = &n->v};
    unsigned bits = n->v.type.bits * n->v.type.lanes, bytes = bits < 8 ? 1 : bits / 8;
    i.size = n->v.is_unsized ? 0 : n->v.count * bytes;
    x->p.at = x->p.text + n->at;
    int failed = variable_list(&i, 0);
    if (!i.size)
        i.size = i.used;
    if (!failed && i.size - i.used > TAIL) /* an image's file contains them all */
        failed = mt_parse_ask(&x->p, i.size - i.used, n->v.name);
    if (!failed && n->v.space == 's')
        failed = mt_parse_fail(&x->p, "%.100s: shared memory has no first values", n->v.name);
    for (unsigned a = 0; a < i.naddresses && !failed; a++)
        if (i.addresses[a].size > 8)
            failed = mt_parse_fail(&x->p, "%.100s: an address in 16 bytes", n->v.name);
    if (!failed)
        failed = variable_set(&i, i.naddresses ? variable_mixed(&i) : variable_numbers(&i, bytes));
    free(i.bytes);
    return failed;
}

/* Notes the functions whose addresses are in initial values, as in tables of virtual functions. */
static int ptx_take_all(struct mt_ptx *x)
{
    for (const struct mt_ptx_pending *n = x->pending; n; n = n->next)
        for (const char *at = x->p.text + n->at, *stop; at < x->p.end && *at != ';'; at = stop) {
            stop = part_word_end(at, x->p.end);
            if ((isalpha((unsigned char)*at) || *at == '_' || *at == '$') && part_take(x, at, stop))
                return -1;
            stop += stop == at;
        }
    return 0;
}

static void ptx_tell(struct mt_ptx *x);

static int ptx_initialise_all(struct mt_ptx *x)
{
    int failed = 0;
    if (x->source->part == MT_PTX_KERNEL)
        x->pending = NULL;
    x->pending_end = &x->pending;
    for (; x->pending; x->pending = x->pending->next)
        if (variable_initialise(x, x->pending)) {
            ptx_tell(x);
            failed = -1;
        }
    return failed;
}

#define MAX_TEXT (1ull << 30)

/* Reports the present error and clears it. */
static void ptx_tell(struct mt_ptx *x)
{
    if (x->error.message[0])
        x->source->tell(x->source->ctx, ptx_line(x, x->error.offset), x->error.message);
    x->error = (struct mt_asm_error){0};
    x->p.failed = 0;
    x->p.depth = 0;
}

/* ---- directives ---------------------------------------------------------------------------------------- */

/* .version 8.7 */
static int read_version(struct mt_ptx *x)
{
    struct mt_asm_operand o = {0};
    mt_parse_space(&x->p);
    return mt_parse_number(&x->p, &o);
}

/* .target sm_90a, debug */
static int read_target(struct mt_ptx *x)
{
    struct mt_parser *p = &x->p;
    do {
        mt_parse_space(p);
        const char *word = mt_parse_name(p, 0);
        if (!word)
            return -1;
        if (!strncmp(word, "sm_", 3))
            x->architecture = (unsigned)atoi(word + 3);
        x->is_debug |= !strcmp(word, "debug");
    } while (mt_parse_accept(p, ','));
    x->result->architecture = x->architecture;
    return 0;
}

static int read_address_size(struct mt_ptx *x)
{
    uint64_t n = 0;
    mt_parse_space(&x->p);
    if (ptx_unsigned(&x->p, 64, &n))
        return -1;
    return n == 64 ? 0 : mt_parse_fail(&x->p, ".address_size %u is not supported", (unsigned)n);
}

/* Reads the text after a label of .debug_str: .b8 65,66,0 */
static const char *read_string(struct mt_ptx *x)
{
    struct mt_parser *p = &x->p;
    char *text = NULL;
    unsigned n = 0, cap = 0;
    uint64_t c = 1;
    for (;;) {
        mt_parse_space(p);
        if (p->end - p->at < 3 || strncmp(p->at, ".b8", 3))
            break;
        p->at += 3;
        do {
            mt_parse_space(p);
            if (ptx_unsigned(p, 255, &c) || !(text = mt_parse_grow(p, text, n, &cap, 1)))
                return NULL;
            text[n++] = (char)c;
        } while (mt_parse_accept(p, ','));
        if (!c)
            break;
    }
    if (!(text = mt_parse_grow(p, text, n, &cap, 1)))
        return NULL;
    text[n] = 0;
    return text;
}

/* Reads .section .debug_str { label: .b8 … }; other sections are not needed. */
static int read_section(struct mt_ptx *x)
{
    struct mt_parser *p = &x->p;
    mt_parse_space(p);
    const char *name = mt_parse_name(p, 1);
    if (!name || mt_parse_expect(p, '{'))
        return -1;
    int strings = !strcmp(name, ".debug_str");
    for (;;) {
        if (!strings)
            while (p->at < p->end && *p->at != '}')
                p->at++;
        if (mt_parse_accept(p, '}'))
            return 0;
        if (p->at == p->end)
            return mt_parse_fail(p, "'}' missing at the end");
        if (mt_parse_peek(p, 0) == '.') {
            const char *here = p->at;
            if (!read_string(x))
                return -1;
            if (p->at == here)
                return mt_parse_fail(p, ".b8 expected in %.40s", name);
            continue;
        }
        const char *label = mt_parse_name(p, 0), *text;
        if (!label || mt_parse_expect(p, ':') || !(text = read_string(x)))
            return -1;
        if (mt_ptx_map_put(&x->strings, label, (void *)text))
            return mt_parse_no_memory(p);
    }
}

/* .alias name, function; */
static int read_alias(struct mt_ptx *x)
{
    struct mt_parser *p = &x->p;
    mt_parse_space(p);
    const char *name = mt_parse_name(p, 0);
    if (!name || mt_parse_expect(p, ','))
        return -1;
    mt_parse_space(p);
    const char *of = mt_parse_name(p, 0);
    if (!of || mt_parse_expect(p, ';'))
        return -1;
    return mt_ptx_map_put(&x->aliases, name, (void *)of) ? mt_parse_no_memory(p) : 0;
}

/* Reads variables after a state space: of one type each, up to ';'. An unsupported one is reported, and
 * reading continues. */
static int read_variables(struct mt_ptx *x, char space, enum mt_ptx_linkage linkage)
{
    struct mt_parser *p = &x->p;
    struct mt_ptx_variable *v = mt_parse_alloc(p, sizeof *v);
    if (!v)
        return mt_parse_no_memory(p);
    if (mt_ptx_read_variable(x, p, space, v))
        return -1;
    const char *here = p->at;
    if (mt_ptx_declare_variable(x, v, linkage, 0)) {
        if (x->source->part == MT_PTX_KERNEL) /* reported for the base */
            x->error = (struct mt_asm_error){0}, p->failed = 0;
        else
            x->result->failed++;
        ptx_tell(x);
        p->at = here;
        while (p->at < p->end && *p->at != ';')
            p->at++;
        return mt_parse_expect(p, ';');
    }
    return mt_ptx_remember_initialiser(x, p, v) || mt_parse_expect(p, ';') ? -1 : 0;
}

static int read_pragma(struct mt_ptx *x)
{
    while (x->p.at < x->p.end && *x->p.at != ';')
        x->p.at++;
    return mt_parse_expect(&x->p, ';');
}

static int read_directive(struct mt_ptx *x, const char *word, enum mt_ptx_linkage linkage)
{
    static const struct {
        const char *word;
        int (*read)(struct mt_ptx *x);
    } table[] = {{".version", read_version}, {".target", read_target},   {".address_size", read_address_size},
                 {".file", ptx_read_file},   {".section", read_section}, {".alias", read_alias},
                 {".pragma", read_pragma}};
    static const char *const spaces[] = {".global", ".shared", ".const"};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return table[i].read(x);
    for (unsigned i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (!strcmp(word, spaces[i]))
            return read_variables(x, word[1], linkage);
    if (!strcmp(word, ".entry") || !strcmp(word, ".func"))
        return ptx_read_function(x, linkage, word[1] == 'e');
    if (!strcmp(word, ".local"))
        return mt_parse_fail(&x->p,
                             "variables of .local belong into a function: a GPU's ptxas takes none here");
    return mt_parse_fail(&x->p, "directive %.60s is not known", word);
}

static int module_read_all(struct mt_ptx *x)
{
    struct mt_parser *p = &x->p;
    for (;;) {
        enum mt_ptx_linkage linkage = MT_PTX_STATIC;
        const char *word;
        mt_parse_space(p);
        if (p->at == p->end)
            return 0;
        if (mt_parse_accept(p, ';'))
            continue;
        do {
            mt_parse_space(p);
            if (!(word = mt_parse_name(p, 1)))
                return -1;
        } while (mt_ptx_linkage_of(word, &linkage));
        if (mt_parse_peek(p, 0) == ':') { /* labels of debug sections */
            p->at++;
            continue;
        }
        if (read_directive(x, word, linkage))
            return -1;
    }
}

/* ---- functions ----------------------------------------------------------------------------------------- */

static void read_function(struct mt_ptx *x, struct mt_ptx_function *f)
{
    x->result->functions++;
    x->result->kernels += (unsigned)f->is_kernel;
    f->done = 1;
    if (!mt_ptx_translate(x, f))
        return;
    struct mt_asm_error why = x->error;
    snprintf(x->error.message, sizeof x->error.message, "%.90s cannot run: %.120s", f->name, why.message);
    ptx_tell(x);
    mt_ptx_refuse(x, f);
    x->result->failed++;
}

/* Reads functions; callees are known only then, so a part takes several rounds. */
static void read_functions(struct mt_ptx *x)
{
    for (int more = 1; more;) {
        more = 0;
        for (struct mt_ptx_function *f = x->first; f; f = f->next)
            if (f->at && !f->done && ptx_has(x, f)) {
                read_function(x, f);
                more = x->source->part != MT_PTX_WHOLE;
            }
    }
}

/* Verifies; a kernel that is only declared belongs to another file. */
static int read_verify(struct mt_ptx *x)
{
    char *message = NULL;
    int bad = LLVMVerifyModule(x->m, LLVMReturnStatusAction, &message);
    if (bad) {
        char *end = strchr(message, '\n');
        snprintf(x->error.message, sizeof x->error.message, "what was made of it is not valid: %.*s",
                 end ? (int)(end - message) : 200, message);
        x->source->tell(x->source->ctx, 0, x->error.message);
    }
    LLVMDisposeMessage(message);
    return bad ? -1 : 0;
}

static int read_module(struct mt_ptx *x)
{
    int part = x->source->part != MT_PTX_WHOLE;
    if (module_read_all(x) || (part && ptx_take_all(x)))
        return -1;
    int failed = ptx_initialise_all(x);
    if (part && ptx_divide(x))
        return -1;
    read_functions(x);
    if (part)
        ptx_drop_others(x);
    return ptx_initialise_all(x) || failed || x->result->undivided ? -1 : 0;
}

#define WEAK ".weak" /* no name of PTX contains a dot */

/* Keeps LLVM from adding loads, which it does only where they cannot fail. Loads of a variable that may
 * have no address can: while LLVM optimises, such variables replace the module's. */
void mt_ptx_keep_loads(LLVMModuleRef module, int on)
{
    char name[1024];
    for (LLVMValueRef v = LLVMGetFirstGlobal(module), next; v; v = next) {
        size_t n;
        const char *own = LLVMGetValueName2(v, &n);
        next = LLVMGetNextGlobal(v);
        int weak_one = n >= sizeof WEAK && strcmp(own + n - (sizeof WEAK - 1), WEAK) == 0;
        if (n + sizeof WEAK > sizeof name || LLVMGetPointerAddressSpace(LLVMTypeOf(v)) != 1)
            continue;
        if (on && !weak_one) {
            snprintf(name, sizeof name, "%s" WEAK, own);
            LLVMValueRef weak = LLVMAddGlobalInAddressSpace(module, LLVMGlobalGetValueType(v), name, 1);
            LLVMSetLinkage(weak, LLVMExternalWeakLinkage);
            LLVMSetAlignment(weak, LLVMGetAlignment(v));
            LLVMReplaceAllUsesWith(v, weak);
            if (LLVMGetLinkage(v) == LLVMInternalLinkage) { /* it has its name until then */
                LLVMSetLinkage(v, LLVMExternalLinkage);
                LLVMSetVisibility(v, LLVMHiddenVisibility);
            }
        } else if (!on && weak_one) {
            snprintf(name, sizeof name, "%.*s", (int)(n - (sizeof WEAK - 1)), own);
            LLVMValueRef strong = LLVMGetNamedGlobal(module, name);
            if (strong) {
                if (LLVMGetVisibility(strong) == LLVMHiddenVisibility) {
                    LLVMSetVisibility(strong, LLVMDefaultVisibility);
                    LLVMSetLinkage(strong, LLVMInternalLinkage);
                }
                LLVMReplaceAllUsesWith(v, strong);
                LLVMDeleteGlobal(v);
            } else { /* another image's, and LLVM has removed the unused ones */
                LLVMSetValueName2(v, name, strlen(name));
                LLVMSetLinkage(v, LLVMExternalLinkage);
            }
        }
    }
}

/* Turns stack slots into values, and integers that are addresses into pointers. */
static void read_promote(struct mt_ptx *x)
{
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    mt_ptx_keep_loads(x->m, 1);
    LLVMErrorRef e = LLVMRunPasses(x->m, "function(sroa)", NULL, o);
    mt_ptx_keep_loads(x->m, 0);
    LLVMDisposePassBuilderOptions(o);
    if (e)
        LLVMConsumeError(e);
    for (struct mt_ptx_function *f = x->first; f; f = f->next)
        if (f->done)
            mt_ptx_find_pointers(f->value);
}

static int read_no_directive(struct mt_parser *p, const char *word)
{
    return 0;
}

static void read_begin(struct mt_ptx *x)
{
    static const char layout[] = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64";
    x->m = LLVMModuleCreateWithNameInContext(x->source->name, x->c);
    LLVMSetSourceFileName(x->m, x->source->name, strlen(x->source->name));
    LLVMSetTarget(x->m, "nvptx64-nvidia-cuda");
    LLVMSetDataLayout(x->m, layout);
    x->layout = LLVMGetModuleDataLayout(x->m);
    x->architecture = 90;
    x->p.error = &x->error;
    x->p.directive = read_no_directive;
    x->p.room = &x->room;
    x->room = (struct mt_parse_room){.limit = x->source->limit ? x->source->limit : MT_PTX_LIMIT,
                                     .by_text = 16 * x->source->length};
    x->pending_end = &x->pending;
}

static void module_read_end(struct mt_ptx *x)
{
    mt_ptx_map_free(&x->functions);
    mt_ptx_map_free(&x->aliases);
    mt_ptx_map_free(&x->strings);
    mt_asm_free(x->p.a);
}

LLVMModuleRef mt_ptx_read(LLVMContextRef context, const struct mt_ptx_source *source,
                          struct mt_ptx_result *result)
{
    struct mt_ptx x = {.c = context, .source = source, .result = result};
    *result = (struct mt_ptx_result){0};
    x.p.a = calloc(1, sizeof *x.p.a);
    char *text = x.p.a && source->length < MAX_TEXT ? mt_parse_alloc(&x.p, source->length + 1) : NULL;
    if (!text) {
        source->tell(source->ctx, 0, "out of memory");
        mt_asm_free(x.p.a);
        return NULL;
    }
    memcpy(text, source->text, source->length);
    x.p.text = x.p.at = text;
    x.p.end = text + source->length;
    read_begin(&x);
    ptx_debug_begin(&x);
    x.debug.has_lines = memmem(text, source->length, ".loc\t", 5) || memmem(text, source->length, ".loc ", 5);
    result->lines = (unsigned)x.debug.has_lines;
    int failed = read_module(&x);
    ptx_tell(&x);
    ptx_debug_end(&x);
    failed = failed || read_verify(&x);
    if (!failed) {
        read_promote(&x);
        failed = read_verify(&x);
    }
    module_read_end(&x);
    if (failed) {
        LLVMDisposeModule(x.m);
        return NULL;
    }
    return x.m;
}
