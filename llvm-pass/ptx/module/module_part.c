/* Parts of a module: the base image shared by all kernels, or one kernel with the functions it calls.
 * Functions called by pointer are found in the text: unneeded bodies are not read. */
#include "module_parts.h"
#include "format/image.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

int mt_ptx_wants(const struct mt_ptx *x, const char *name, int is_kernel)
{
    const struct mt_ptx_source *s = x->source;
    return s->part == MT_PTX_WHOLE || !is_kernel || (s->part == MT_PTX_KERNEL && !strcmp(name, s->kernel));
}

int mt_ptx_has(const struct mt_ptx *x, const struct mt_ptx_function *f)
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

/* Takes its address, which is unavailable if the kernel of that name is in another image. */
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
            (x->source->part == MT_PTX_BASE || mt_ptx_wants(x, f->name, f->is_kernel)) &&
            mt_ptx_content(x, f))
            return -1;
    for (const struct mt_ptx_function *f = x->first; f; f = f->next)
        n += f->is_kernel && f->at;
    if (n < 2 && x->source->part == MT_PTX_BASE)
        x->result->undivided = "it has one kernel";
    return 0;
}

int mt_ptx_divide(struct mt_ptx *x)
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

void mt_ptx_drop_others(struct mt_ptx *x)
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
