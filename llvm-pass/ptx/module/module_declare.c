/* Declarations of PTX: variables' types, functions with their parameters,
 * kernels' directives, call prototypes. */
#include "module_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    uint64_t n;
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
        if (mt_ptx_unsigned(p, MAX_BYTES, &n) || mt_parse_expect(p, ']'))
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
    uint64_t n;
    if (!strcmp(word, ".align")) {
        mt_parse_space(p);
        if (mt_ptx_unsigned(p, 1 << 20, &n))
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

void mt_ptx_annotate(struct mt_ptx *x, LLVMValueRef global, const char *key, uint64_t value)
{
    LLVMMetadataRef fields[] = {LLVMValueAsMetadata(global), LLVMMDStringInContext2(x->c, key, strlen(key)),
                                LLVMValueAsMetadata(LLVMConstInt(LLVMInt32TypeInContext(x->c), value, 0))};
    LLVMAddNamedMetadataOperand(x->m, "nvvm.annotations",
                                LLVMMetadataAsValue(x->c, LLVMMDNodeInContext2(x->c, fields, 3)));
}

void mt_ptx_say(struct mt_ptx *x, const struct mt_ptx_function *f, const char *text, size_t length)
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
    mt_ptx_say(x, f, text, (size_t)length);
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
            if (mt_ptx_unsigned(p, UINT32_MAX, &n[have++]))
                return -1;
            if (have < table[i].numbers && !mt_parse_accept(p, ','))
                break;
        }
        if (!f->value) /* a kernel that is not needed */
            return 0;
        if (!table[i].key)
            declare_cluster(x, f, n);
        else if (table[i].numbers == 1 && *table[i].key)
            mt_ptx_annotate(x, f->value, table[i].key, n[0]);
        for (unsigned d = 0; table[i].key && table[i].numbers == 3 && d < 3; d++) {
            char key[16];
            snprintf(key, sizeof key, "%s%c", table[i].key, "xyz"[d]);
            mt_ptx_annotate(x, f->value, key, n[d]);
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
    static const char *const attributes[] = {"nounwind", "convergent"};
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
        /* a function's argument has a name that cannot be taken for a kernel's (names.c ignores names with
         * a dot) */
        snprintf(name, sizeof name, f->is_kernel ? "arg%u" : "arg.%u", i);
        LLVMSetValueName2(LLVMGetParam(value, i), name, strlen(name));
        if (v->is_array)
            mt_ptx_pass_in_memory(x, value, 0, v, i);
    }
    declare_target(x, value);
    if (f->is_kernel)
        mt_ptx_annotate(x, value, "kernel", 1);
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
    f->value = mt_ptx_wants(x, name, is_kernel) ? declare_value(x, f) : NULL;
    if (x->last)
        x->last->next = f;
    else
        x->first = f;
    x->last = f;
    return f;
}

int mt_ptx_read_function(struct mt_ptx *x, enum mt_ptx_linkage linkage, int is_kernel)
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
