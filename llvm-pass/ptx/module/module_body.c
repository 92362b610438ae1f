/* A function's body: parsed like inline asm, with declarations and labels of modules, then turned
 * statement by statement into IR. Registers are stack slots, which SROA turns into SSA values once all
 * functions exist. */
#include "module_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- declarations in bodies ---------------------------------------------------------------------------- */

static int body_add_memory(struct mt_ptx_body *b, const struct mt_ptx_variable *v)
{
    struct mt_asm_reg reg = {.name = v->name, .type = 'm', .bits = 64, .memory = v};
    if (v->space == 'r')
        reg =
            (struct mt_asm_reg){.name = v->name, .type = v->type.kind, .bits = v->type.bits * v->type.lanes};
    return mt_parse_add_reg(&b->p, &reg);
}

/* Reads .param, .local, .shared, .global, .const: one variable or several of a type. */
static int body_variables(struct mt_ptx_body *b, char space, enum mt_ptx_linkage linkage)
{
    struct mt_parser *p = &b->p;
    struct mt_ptx_variable *v = mt_parse_alloc(p, sizeof *v);
    int in_module = space == 's' || space == 'g' || space == 'c';
    if (!v)
        return mt_parse_no_memory(p);
    if (mt_ptx_read_variable(b->x, p, space, v))
        return -1;
    if (in_module &&
        (mt_ptx_declare_variable(b->x, v, linkage, 1) || mt_ptx_remember_initialiser(b->x, p, v)))
        return -1;
    return body_add_memory(b, v) < 0 || mt_parse_expect(p, ';') ? -1 : 1;
}

/* Takes the label in front of the directive, which is not one of the code's; NULL on failure. */
static const char *body_take_label(struct mt_ptx_body *b)
{
    struct mt_asm *a = b->p.a;
    const char *label = a->nstatements ? a->statements[a->nstatements - 1].label : NULL;
    if (label)
        a->nstatements--;
    else
        mt_parse_fail(&b->p, "a label is missing here");
    return label;
}

static int body_prototype(struct mt_ptx_body *b)
{
    const char *label = body_take_label(b);
    struct mt_ptx_signature *sig = mt_parse_alloc(&b->p, sizeof *sig);
    if (!label || !sig || mt_ptx_read_prototype(b->x, &b->p, sig))
        return -1;
    return mt_ptx_map_put(&b->prototypes, label, sig) ? mt_parse_no_memory(&b->p) : 1;
}

/* Reads .branchtargets and .calltargets: names up to ';'. */
static int body_targets(struct mt_ptx_body *b)
{
    struct mt_parser *p = &b->p;
    const char *label = body_take_label(b);
    struct mt_ptx_targets *t = mt_parse_alloc(p, sizeof *t);
    if (!label || !t)
        return -1;
    do {
        mt_parse_space(p);
        t->scope = p->scope;
        t->names = mt_parse_grow(p, t->names, t->n, &t->cap, sizeof *t->names);
        if (!t->names || !(t->names[t->n++] = mt_parse_name(p, 0)))
            return -1;
    } while (mt_parse_accept(p, ','));
    if (mt_parse_expect(p, ';'))
        return -1;
    return mt_ptx_map_put(&b->targets, label, t) ? mt_parse_no_memory(p) : 1;
}

static int body_directive(struct mt_parser *p, const char *word)
{
    struct mt_ptx_body *b = p->ctx;
    static const char *const spaces[] = {".param", ".local", ".shared", ".global", ".const"};
    enum mt_ptx_linkage linkage = MT_PTX_STATIC;
    while (mt_ptx_linkage_of(word, &linkage)) {
        mt_parse_space(p);
        if (!(word = mt_parse_name(p, 1)))
            return -1;
    }
    for (unsigned i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (!strcmp(word, spaces[i]))
            return body_variables(b, word[1], linkage);
    if (!strcmp(word, ".loc"))
        return mt_ptx_read_location(b, p) ? -1 : 1;
    if (!strcmp(word, ".callprototype"))
        return body_prototype(b);
    if (!strcmp(word, ".branchtargets") || !strcmp(word, ".calltargets"))
        return body_targets(b);
    return 0;
}

/* ---- memory and names ---------------------------------------------------------------------------------- */

LLVMValueRef mt_ptx_memory(struct mt_ptx_body *b, const struct mt_asm_operand *o)
{
    const struct mt_ptx_variable *v = o->kind == MT_ASM_REG ? b->l.a->regs[o->index].memory : NULL;
    LLVMValueRef *slot = v ? &b->l.regs[o->index] : NULL;
    if (!v) {
        mt_asm_fail(&b->l, "%s: a parameter or variable is expected", b->l.s->opcode);
        return NULL;
    }
    if (v->value)
        return v->value;
    if (!*slot && (*slot = mt_asm_slot(&b->l, mt_ptx_type_of(b->x, v), "")))
        LLVMSetAlignment(*slot, v->align);
    return *slot;
}

/* Returns the address of a variable or function in its own space as i64; NULL: no such name. */
static LLVMValueRef ptx_symbol(struct mt_ptx *x, const char *name)
{
    struct mt_ptx_function *f = mt_ptx_find_function(x, name);
    LLVMValueRef v = f ? mt_ptx_address(x, f) : LLVMGetNamedGlobal(x->m, name);
    return v ? LLVMConstPtrToInt(v, LLVMInt64TypeInContext(x->c)) : NULL;
}

/* Returns 1 for a special register of PTX, 0 for an undeclared name. */
static int body_is_special(const char *name)
{
    static const char *const whole[] = {"nwarpid",
                                        "smid",
                                        "nsmid",
                                        "gridid",
                                        "clock",
                                        "clock_hi",
                                        "clock64",
                                        "cluster_ctarank",
                                        "tid.w",
                                        "ntid.w",
                                        "ctaid.w",
                                        "nctaid.w",
                                        "globaltimer",
                                        "globaltimer_lo",
                                        "globaltimer_hi",
                                        "cluster_nctarank",
                                        "total_smem_size",
                                        "aggr_smem_size",
                                        "dynamic_smem_size",
                                        "current_graph_exec",
                                        "is_explicit_cluster"};
    static const char *const begin[] = {"lanemask_",       "pm",
                                        "envreg",          "clusterid.",
                                        "nclusterid.",     "cluster_ctaid.",
                                        "cluster_nctaid.", "reserved_smem_offset_"};
    for (unsigned i = 0; i < sizeof whole / sizeof *whole; i++)
        if (!strcmp(name, whole[i]))
            return 1;
    for (unsigned i = 0; i < sizeof begin / sizeof *begin; i++)
        if (!strncmp(name, begin[i], strlen(begin[i])))
            return 1;
    return 0;
}

/* Reads a special register. Those of every device are intrinsics, as in clang's code, which the pass knows
 * in loops over threads. */
static LLVMValueRef body_special(struct mt_asm_body *l, const char *name)
{
    static const char *const known[] = {"tid.x",    "tid.y",    "tid.z",   "ntid.x",  "ntid.y",
                                        "ntid.z",   "ctaid.x",  "ctaid.y", "ctaid.z", "nctaid.x",
                                        "nctaid.y", "nctaid.z", "laneid",  "warpid"};
    static const char *const changing[] = {"clock", "globaltimer", "pm", "smid", "total_smem"};
    char text[128];
    struct mt_asm_type t = {'u', 32, 1};
    int acts = 0;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i])) {
            snprintf(text, sizeof text, "llvm.nvvm.read.ptx.sreg.%s", name);
            return mt_asm_intrinsic(l, text, NULL, NULL, 0);
        }
    if (!body_is_special(name)) {
        mt_asm_fail(l, "register %%%.100s is not declared", name);
        return NULL;
    }
    for (unsigned i = 0; i < sizeof changing / sizeof *changing; i++)
        acts |= !strncmp(name, changing[i], strlen(changing[i]));
    mt_asm_type(l->s->parts[l->s->nparts - 1], &t);
    LLVMTypeRef type = LLVMFunctionType(mt_asm_int(l, t.bits), NULL, 0, 0);
    int n = snprintf(text, sizeof text, "mov.%s $0, %%%.60s;", l->s->parts[l->s->nparts - 1], name);
    const char *constraint = t.bits == 64 ? "=l" : t.bits == 1 ? "=b" : t.bits == 16 ? "=h" : "=r";
    LLVMValueRef body =
        LLVMGetInlineAsm(type, text, (size_t)n, constraint, 2, acts, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(l->b, type, body, NULL, 0, "");
}

static LLVMValueRef body_symbol(struct mt_asm_body *l, const struct mt_asm_operand *o)
{
    struct mt_ptx_body *b = (struct mt_ptx_body *)l;
    LLVMValueRef v = NULL;
    if (o->kind == MT_ASM_SREG)
        return body_special(l, o->name);
    if (o->kind == MT_ASM_REG) {
        v = mt_ptx_memory(b, o);
        v = v ? LLVMBuildPtrToInt(l->b, v, l->i64, "") : NULL;
    } else {
        v = ptx_symbol(b->x, o->name);
    }
    return v && o->offset ? LLVMBuildAdd(l->b, v, mt_asm_const(l, 64, (uint64_t)o->offset), "") : v;
}

/* ---- labels -------------------------------------------------------------------------------------------- */

static const char *body_label_key(struct mt_ptx_body *b, unsigned scope, const char *name)
{
    size_t n = strlen(name) + 16;
    char *key = mt_parse_alloc(&b->p, n);
    if (key)
        snprintf(key, n, "%u %s", scope, name);
    return key;
}

static int body_make_labels(struct mt_ptx_body *b)
{
    const struct mt_asm *a = b->l.a;
    for (unsigned i = 0; i < a->nstatements; i++) {
        const char *name = a->statements[i].label, *key;
        if (!name)
            continue;
        b->l.s = &a->statements[i];
        if (!(key = body_label_key(b, a->statements[i].scope, name)))
            return mt_asm_fail(&b->l, "out of memory");
        if (mt_ptx_map_get(&b->labels, key))
            return mt_asm_fail(&b->l, "label %.100s is defined twice", name);
        if (mt_ptx_map_put(&b->labels, key, mt_asm_block(&b->l)))
            return mt_asm_fail(&b->l, "out of memory");
    }
    b->l.s = NULL;
    return 0;
}

LLVMBasicBlockRef mt_ptx_label(struct mt_ptx_body *b, unsigned scope, const char *name)
{
    for (;; scope = b->l.a->scopes[scope]) {
        const char *key = body_label_key(b, scope, name);
        LLVMBasicBlockRef block = key ? mt_ptx_map_get(&b->labels, key) : NULL;
        if (block)
            return block;
        if (!scope) {
            mt_asm_fail(&b->l, "label %.100s is not in this function", name);
            return NULL;
        }
    }
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static int body_ended(const struct mt_ptx_body *b)
{
    return LLVMGetBasicBlockTerminator(LLVMGetInsertBlock(b->l.b)) != NULL;
}

static int body_any(struct mt_ptx_body *b)
{
    int done = mt_ptx_flow(b);
    if (!done)
        done = mt_ptx_move(b);
    if (!done)
        done = mt_ptx_native(b);
    return done ? (done < 0 ? -1 : 0) : mt_ptx_asm(b);
}

/* Emits a statement; with a predicate as a conditional jump, a select, or a block that is jumped over. */
static int body_statement(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    l->guard = NULL;
    if (l->s->predicate && !(l->guard = mt_asm_in(l, l->s->predicate, 1)))
        return -1;
    if (!l->guard || !strcmp(l->s->parts[0], "bra") || mt_ptx_is_pure(l->s))
        return body_any(b);
    LLVMBasicBlockRef then = mt_asm_block(l), after = mt_asm_block(l);
    LLVMBuildCondBr(l->b, l->guard, then, after);
    LLVMPositionBuilderAtEnd(l->b, then);
    l->guard = NULL;
    int failed = body_any(b);
    if (!body_ended(b))
        LLVMBuildBr(l->b, after);
    LLVMPositionBuilderAtEnd(l->b, after);
    return failed;
}

static int body_label(struct mt_ptx_body *b)
{
    LLVMBasicBlockRef block = mt_ptx_label(b, b->l.s->scope, b->l.s->label);
    if (!block)
        return -1;
    if (!body_ended(b))
        LLVMBuildBr(b->l.b, block);
    LLVMMoveBasicBlockAfter(block, LLVMGetLastBasicBlock(b->l.function));
    LLVMPositionBuilderAtEnd(b->l.b, block);
    return 0;
}

static int body_statements(struct mt_ptx_body *b)
{
    const struct mt_asm *a = b->l.a;
    for (unsigned i = 0; i < a->nstatements; i++) {
        b->l.s = &a->statements[i];
        if (b->l.s->label) {
            if (body_label(b))
                return -1;
            continue;
        }
        mt_ptx_debug_at(b, b->l.s->offset);
        if (body_ended(b)) /* unreachable */
            LLVMPositionBuilderAtEnd(b->l.b, mt_asm_block(&b->l));
        if (body_statement(b))
            return -1;
    }
    if (!body_ended(b)) {
        if (b->f->sig.nresults)
            LLVMBuildUnreachable(b->l.b);
        else
            LLVMBuildRetVoid(b->l.b);
    }
    return 0;
}

/* ---- the function -------------------------------------------------------------------------------------- */

/* Makes parameters and results memory, or registers, at the function's start. */
static int body_parse(struct mt_ptx_body *b)
{
    struct mt_ptx_signature *sig = &b->f->sig;
    for (unsigned i = 0; i < sig->nparams; i++)
        if (body_add_memory(b, &sig->params[i]) < 0)
            return -1;
    for (unsigned i = 0; i < sig->nresults; i++)
        if (body_add_memory(b, &sig->results[i]) < 0)
            return -1;
    return mt_parse_body(&b->p, 0);
}

static int body_store_arguments(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_ptx_signature *sig = &b->f->sig;
    for (unsigned i = 0; i < sig->nparams; i++) { /* the first registers are the parameters */
        LLVMValueRef argument = LLVMGetParam(b->f->value, i);
        struct mt_asm_operand o = {.kind = MT_ASM_REG, .index = i};
        if (sig->params[i].is_array) {
            l->regs[i] = argument;
            continue;
        }
        LLVMValueRef slot = sig->params[i].space == 'r'
                                ? (l->regs[i] = mt_asm_slot(l, mt_asm_int(l, l->a->regs[i].bits), ""))
                                : mt_ptx_memory(b, &o);
        if (!slot)
            return -1;
        LLVMBuildStore(l->b, argument, slot);
    }
    return 0;
}

static int body_begin(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    struct mt_ptx *x = b->x;
    static const struct mt_asm_builtins none;
    l->m = x->m;
    l->c = x->c;
    l->layout = x->layout;
    l->function = b->f->value;
    l->a = b->p.a;
    l->builtins = &none;
    l->error = &x->error;
    l->symbol = body_symbol;
    l->i1 = mt_asm_int(l, 1);
    l->i8 = mt_asm_int(l, 8);
    l->i16 = mt_asm_int(l, 16);
    l->i32 = mt_asm_int(l, 32);
    l->i64 = mt_asm_int(l, 64);
    l->ptr = LLVMPointerTypeInContext(x->c, 0);
    l->none = LLVMVoidTypeInContext(x->c);
    l->b = LLVMCreateBuilderInContext(x->c);
    l->regs = calloc(l->a->nregs + 1, sizeof *l->regs);
    if (!l->regs)
        return mt_asm_fail(l, "out of memory");
    LLVMBasicBlockRef entry = mt_asm_block(l);
    l->first = mt_asm_block(l);
    LLVMPositionBuilderAtEnd(l->b, entry);
    LLVMBuildBr(l->b, l->first); /* slots come before it */
    LLVMPositionBuilderAtEnd(l->b, l->first);
    mt_ptx_debug_function(b);
    b->flush = mt_ptx_flushes(l->a);
    if (b->flush)
        LLVMAddTargetDependentFunctionAttr(l->function, "denormal-fp-math-f32",
                                           "preserve-sign,preserve-sign");
    return body_store_arguments(b) || body_make_labels(b) ? -1 : 0;
}

static void body_end(struct mt_ptx_body *b)
{
    if (b->l.b)
        mt_asm_end(&b->l);
    mt_ptx_map_free(&b->prototypes);
    mt_ptx_map_free(&b->targets);
    mt_ptx_map_free(&b->labels);
    mt_asm_free(b->p.a);
}

int mt_ptx_translate(struct mt_ptx *x, struct mt_ptx_function *f)
{
    struct mt_ptx_body b = {.x = x, .f = f};
    b.p = (struct mt_parser){
        .error = &x->error, .directive = body_directive, .ctx = &b, .text = x->p.text, .room = &x->room};
    b.p.at = x->p.text + f->at;
    b.p.end = x->p.text + f->end;
    b.p.a = calloc(1, sizeof *b.p.a);
    int failed = !b.p.a ? mt_parse_no_memory(&b.p) : body_parse(&b);
    if (!failed)
        failed = body_begin(&b) || body_statements(&b) ? -1 : 0;
    body_end(&b);
    return failed;
}

static void body_erase(LLVMValueRef function)
{
    for (LLVMBasicBlockRef at = LLVMGetFirstBasicBlock(function); at; at = LLVMGetNextBasicBlock(at))
        for (LLVMValueRef i; (i = LLVMGetLastInstruction(at));) {
            if (LLVMGetTypeKind(LLVMTypeOf(i)) != LLVMVoidTypeKind)
                LLVMReplaceAllUsesWith(i, LLVMGetUndef(LLVMTypeOf(i)));
            LLVMInstructionEraseFromParent(i);
        }
    for (LLVMBasicBlockRef at; (at = LLVMGetFirstBasicBlock(function));)
        LLVMDeleteBasicBlock(at);
}

void mt_ptx_refuse(struct mt_ptx *x, struct mt_ptx_function *f)
{
    static const char text[] = "unreadable.ptx;";
    struct mt_ptx_body b = {.x = x, .f = f};
    body_erase(f->value);
    b.l.b = LLVMCreateBuilderInContext(x->c);
    LLVMPositionBuilderAtEnd(b.l.b, LLVMAppendBasicBlockInContext(x->c, f->value, ""));
    mt_ptx_debug_function(&b);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(x->c), NULL, 0, 0);
    LLVMValueRef body =
        LLVMGetInlineAsm(type, text, sizeof text - 1, "~{memory}", 9, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMBuildCall2(b.l.b, type, body, NULL, 0, "");
    LLVMTypeRef result = LLVMGetReturnType(f->sig.type);
    if (LLVMGetTypeKind(result) == LLVMVoidTypeKind)
        LLVMBuildRetVoid(b.l.b);
    else
        LLVMBuildRet(b.l.b, LLVMConstNull(result));
    LLVMDisposeBuilder(b.l.b);
}
