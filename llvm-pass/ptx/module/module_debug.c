/* Source locations of instructions: .file and .loc, with inlining, as LLVM's debug locations. A PTX file
 * without them is its own source. */
#include "module_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILES 65536
#define STEP 4096 /* bytes between text positions with known lines */
#define NEAR 2048 /* maximum places searched for the one at which code was inlined */

static LLVMMetadataRef debug_file(struct mt_ptx *x, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return LLVMDIBuilderCreateFile(x->debug.b, name, strlen(name), path, slash ? (size_t)(slash - path) : 0);
}

void mt_ptx_debug_begin(struct mt_ptx *x)
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

void mt_ptx_debug_end(struct mt_ptx *x)
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

unsigned mt_ptx_line(struct mt_ptx *x, size_t offset)
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

/* .file 1 "path"{, time, size} */
int mt_ptx_read_file(struct mt_ptx *x)
{
    struct mt_parser *p = &x->p;
    struct mt_ptx_debug *d = &x->debug;
    uint64_t number, ignored;
    mt_parse_space(p);
    if (mt_ptx_unsigned(p, MAX_FILES - 1, &number) || mt_parse_expect(p, '"'))
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
        if (mt_ptx_unsigned(p, UINT64_MAX, &ignored))
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
        uint64_t n;
        mt_parse_space(p);
        if (mt_ptx_unsigned(p, UINT32_MAX, &n))
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
            if (mt_parse_accept(p, '+') && mt_ptx_unsigned(p, UINT64_MAX, &n))
                return -1;
        } else if (!debug_word(p, "inlined_at") || debug_three(p, &at.at_file, &at.at_line, &at.at_column)) {
            return mt_parse_fail(p, ".loc is not understood");
        }
    }
    while (debug_word(p, "prologue_end") || debug_word(p, "epilogue_begin") || debug_word(p, "basic_block"))
        ;
    while (debug_word(p, "is_stmt") || debug_word(p, "discriminator")) {
        mt_parse_space(p);
        if (mt_ptx_unsigned(p, UINT64_MAX, &n))
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
        mt_ptx_say(b->x, b->f, text, size);
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
    unsigned line = mt_ptx_line(x, b->f->place);
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
        unsigned line = mt_ptx_line(x, offset);
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
