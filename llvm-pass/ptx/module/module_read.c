/* Modules of PTX: directives outside of functions; then the functions, one after the other. */
#include "module_parts.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT (1ull << 30)

void mt_ptx_tell(struct mt_ptx *x)
{
    if (x->error.message[0])
        x->source->tell(x->source->ctx, mt_ptx_line(x, x->error.offset), x->error.message);
    x->error = (struct mt_asm_error){0};
    x->p.failed = 0;
    x->p.depth = 0;
}

int mt_ptx_unsigned(struct mt_parser *p, uint64_t max, uint64_t *out)
{
    struct mt_asm_operand o = {0};
    if (mt_parse_number(p, &o))
        return -1;
    if (o.kind != MT_ASM_INT || o.bits > max)
        return mt_parse_fail(p, "the number is too large, or none");
    *out = o.bits;
    return 0;
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
    if (mt_ptx_unsigned(&x->p, 64, &n))
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
            if (mt_ptx_unsigned(p, 255, &c) || !(text = mt_parse_grow(p, text, n, &cap, 1)))
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
        mt_ptx_tell(x);
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
    } table[] = {
        {".version", read_version},  {".target", read_target},   {".address_size", read_address_size},
        {".file", mt_ptx_read_file}, {".section", read_section}, {".alias", read_alias},
        {".pragma", read_pragma}};
    static const char *const spaces[] = {".global", ".shared", ".const"};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return table[i].read(x);
    for (unsigned i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (!strcmp(word, spaces[i]))
            return read_variables(x, word[1], linkage);
    if (!strcmp(word, ".entry") || !strcmp(word, ".func"))
        return mt_ptx_read_function(x, linkage, word[1] == 'e');
    if (!strcmp(word, ".local"))
        return mt_parse_fail(&x->p,
                             "variables of .local belong into a function: a GPU's ptxas takes none here");
    return mt_parse_fail(&x->p, "directive %.60s is not known", word);
}

static int read_all(struct mt_ptx *x)
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
    mt_ptx_tell(x);
    mt_ptx_refuse(x, f);
    x->result->failed++;
}

/* Reads functions; callees are known only then, so a part takes several rounds. */
static void read_functions(struct mt_ptx *x)
{
    for (int more = 1; more;) {
        more = 0;
        for (struct mt_ptx_function *f = x->first; f; f = f->next)
            if (f->at && !f->done && mt_ptx_has(x, f)) {
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
    if (read_all(x))
        return -1;
    int failed = mt_ptx_initialise_all(x), part = x->source->part != MT_PTX_WHOLE;
    if (part && mt_ptx_divide(x))
        return -1;
    read_functions(x);
    if (part)
        mt_ptx_drop_others(x);
    return mt_ptx_initialise_all(x) || failed || x->result->undivided ? -1 : 0;
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

static void read_end(struct mt_ptx *x)
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
    mt_ptx_debug_begin(&x);
    x.debug.has_lines = memmem(text, source->length, ".loc\t", 5) || memmem(text, source->length, ".loc ", 5);
    result->lines = (unsigned)x.debug.has_lines;
    int failed = read_module(&x);
    mt_ptx_tell(&x);
    mt_ptx_debug_end(&x);
    failed = failed || read_verify(&x);
    if (!failed) {
        read_promote(&x);
        failed = read_verify(&x);
    }
    read_end(&x);
    if (failed) {
        LLVMDisposeModule(x.m);
        return NULL;
    }
    return x.m;
}
