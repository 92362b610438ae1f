/* Puts a record call before each access to global memory (with the option spaces, also to others), and
 * gives each kernel its hidden parameter. */
#include "trace.h"
#include "unit/pass.h"
#include "ptx/asm/asm.h"
#include "memtrace/grow.h"
#include "ptx/module/module.h"
#include "memtrace/hash.h"
#include "format/image.h"

#include "base/regex.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Source names for the base of an access. A wrong name is worse than none: if several are possible, or it
 * is unclear which, there is no name. The AST side lists a function's parameters, `this` included.
 * Optimisation drops and splits parameters, so the names are attached to them before, as attributes, which
 * stay with a parameter wherever it goes. */

#define PARAM_NAME "memtrace-name"
#define MAX_SEEN 64

/* Returns the opcode of an instruction or constant expression; 0 for others. */
static LLVMOpcode mt_opcode(LLVMValueRef v)
{
    return LLVMIsAInstruction(v)    ? LLVMGetInstructionOpcode(v)
           : LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v)
                                    : (LLVMOpcode)0;
}

LLVMValueRef mt_base_of(LLVMValueRef v)
{
    for (;;) {
        LLVMOpcode op = mt_opcode(v);
        if (op != LLVMGetElementPtr && op != LLVMBitCast && op != LLVMAddrSpaceCast)
            return v;
        v = LLVMGetOperand(v, 0);
    }
}

/* Returns the start of the list of names in an annotation of a function (clang-plugin/facts.cpp); NULL:
 * there is none. */
static const char *names_list(const char *text, const char *end)
{
    static const char kernel[] = MT_ANNOTATION "kernel\t", device[] = MT_ANNOTATION "device\t";
    size_t n = (size_t)(end - text);
    if (n < sizeof kernel - 1 ||
        (memcmp(text, kernel, sizeof kernel - 1) && memcmp(text, device, sizeof device - 1)))
        return NULL;
    for (int tabs = 5; tabs && text; tabs--) {
        text = memchr(text, '\t', (size_t)(end - text));
        text = text ? text + 1 : NULL;
    }
    return text;
}

static unsigned names_count(const char *list, const char *end)
{
    unsigned n = list < end;
    for (; list < end; list++)
        n += *list == ',';
    return n;
}

static int names_returns_through(LLVMValueRef function)
{
    unsigned sret = LLVMGetEnumAttributeKindForName("sret", 4);
    return LLVMCountParams(function) && LLVMGetEnumAttributeAtIndex(function, 1, sret) != NULL;
}

/* Names a function's parameters by the list in an annotation of the AST side. The function must still have
 * clang's parameters; does nothing if the two disagree. */
static void name_params(LLVMValueRef function, const char *text, size_t length)
{
    const char *end = memchr(text, 0, length), *list = names_list(text, end ? end : text + length);
    end = end ? end : text + length;
    unsigned first = (unsigned)names_returns_through(function), n = list ? names_count(list, end) : 0;
    /* Constructors of classes with virtual bases have one more, and there may be others that the source
     * lacks. */
    if (!n || first + n != LLVMCountParams(function))
        return;
    LLVMContextRef c = LLVMGetTypeContext(LLVMTypeOf(function));
    for (unsigned i = 0; i < n; i++) {
        const char *comma = memchr(list, ',', (size_t)(end - list)), *stop = comma ? comma : end;
        if (stop > list)
            LLVMAddAttributeAtIndex(function, first + i + 1,
                                    LLVMCreateStringAttribute(c, PARAM_NAME, sizeof PARAM_NAME - 1, list,
                                                              (unsigned)(stop - list)));
        list = stop + 1;
    }
}

void mt_copy_param_names(LLVMValueRef from, LLVMValueRef to)
{
    unsigned n = LLVMCountParams(to);
    for (unsigned i = 1; n == LLVMCountParams(from) && i <= n; i++) {
        LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(from, i, PARAM_NAME, sizeof PARAM_NAME - 1);
        if (a)
            LLVMAddAttributeAtIndex(to, i, a);
    }
}

char *mt_param_name(LLVMValueRef param)
{
    LLVMValueRef f = LLVMGetParamParent(param);
    unsigned i = 1, length;
    for (LLVMValueRef p = LLVMGetFirstParam(f); p && p != param; p = LLVMGetNextParam(p))
        i++;
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(f, i, PARAM_NAME, sizeof PARAM_NAME - 1);
    if (a) {
        const char *name = LLVMGetStringAttributeValue(a, &length);
        return strndup(name, length);
    }
    /* Functions of system headers have no annotation; LLVM's own names for parts of a parameter have a
     * dot. */
    const char *name = mt_name(param);
    return *name && !strchr(name, '.') ? strdup(name) : NULL;
}

struct naming {
    LLVMValueRef seen[MAX_SEEN];
    unsigned nseen;
    char *name;  /* common name of all found so far */
    int unclear; /* 1: there is something else, too */
};

static void naming_found(struct naming *w, char *name)
{
    if (!name || (w->name && strcmp(w->name, name))) {
        w->unclear = 1;
        free(name);
    } else {
        free(w->name);
        w->name = name;
    }
}

/* A variable that unoptimised code keeps in stack memory: the size of a pointer. */
struct slot {
    LLVMValueRef memory; /* an alloca, perhaps a function's whole frame */
    uint64_t at;
    LLVMValueRef stored[MAX_SEEN];
    unsigned n;
};
#define SLOT_BYTES 8

/* Returns the distance of the address from its base; -1: unknown. */
static int64_t slot_step(LLVMValueRef address)
{
    LLVMOpcode op = mt_opcode(address);
    LLVMTypeRef unit = op == LLVMGetElementPtr ? LLVMGetGEPSourceElementType(address) : NULL;
    if (op == LLVMAddrSpaceCast || op == LLVMPtrToInt || op == LLVMIntToPtr)
        return 0;
    if (op != LLVMAdd && (!unit || LLVMGetNumOperands(address) != 2 ||
                          LLVMGetTypeKind(unit) != LLVMIntegerTypeKind || LLVMGetIntTypeWidth(unit) != 8))
        return -1;
    LLVMValueRef by = LLVMIsAConstantInt(LLVMGetOperand(address, 1));
    return !by || LLVMConstIntGetSExtValue(by) < 0 ? -1 : LLVMConstIntGetSExtValue(by);
}

/* Finds the value stored into the slot through this pointer, which is `at` bytes into the memory. Returns
 * 0 if others may write to it, too. An address that escapes from behind the slot belongs to another
 * variable. */
static int slot_uses(struct slot *s, LLVMValueRef address, uint64_t at, LLVMTargetDataRef layout)
{
    for (LLVMUseRef use = LLVMGetFirstUse(address); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        int64_t step = slot_step(user);
        if (LLVMIsALoadInst(user))
            continue;
        if (step >= 0) {
            if (!slot_uses(s, user, at + (uint64_t)step, layout))
                return 0;
            continue;
        }
        LLVMValueRef value = LLVMIsAStoreInst(user) ? LLVMGetOperand(user, 0) : NULL;
        if (!value || value == address) {
            if (at <= s->at)
                return 0;
            continue;
        }
        uint64_t bytes = LLVMABISizeOfType(layout, LLVMTypeOf(value));
        if (at >= s->at + SLOT_BYTES || at + bytes <= s->at)
            continue;
        if (at != s->at || bytes != SLOT_BYTES || s->n == MAX_SEEN)
            return 0;
        s->stored[s->n++] = value;
    }
    return 1;
}

static int slot_find(struct slot *s, LLVMValueRef pointer)
{
    *s = (struct slot){.memory = pointer};
    while (!LLVMIsAAllocaInst(s->memory)) {
        int64_t step = slot_step(s->memory);
        if (step < 0)
            return 0;
        s->at += (uint64_t)step;
        s->memory = LLVMGetOperand(s->memory, 0);
    }
    LLVMModuleRef m = LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(s->memory)));
    return slot_uses(s, s->memory, 0, LLVMGetModuleDataLayout(m));
}

/* Returns the parameter that a value is: itself, or from a slot that holds nothing else. */
static LLVMValueRef naming_param(LLVMValueRef v)
{
    struct slot s;
    if (LLVMIsAIntToPtrInst(v) || LLVMIsAPtrToIntInst(v))
        v = LLVMGetOperand(v, 0);
    if (LLVMIsALoadInst(v) && slot_find(&s, LLVMGetOperand(v, 0)) && s.n == 1)
        v = mt_base_of(s.stored[0]);
    if (LLVMIsAPtrToIntInst(v))
        v = mt_base_of(LLVMGetOperand(v, 0));
    return LLVMIsAArgument(v);
}

static void naming_walk(struct naming *w, LLVMValueRef v);

/* Names a pointer loaded from memory: from a variable, or a member of a parameter's object, whose name it
 * takes. */
static void naming_load(struct naming *w, LLVMValueRef load)
{
    LLVMValueRef from = LLVMGetOperand(load, 0), param;
    struct slot s;
    if (LLVMIsAAllocaInst(mt_base_of(from))) {
        w->unclear |= !slot_find(&s, from);
        for (unsigned i = 0; !w->unclear && i < s.n; i++)
            naming_walk(w, s.stored[i]);
    } else if ((param = naming_param(mt_base_of(from)))) {
        naming_found(w, mt_param_name(param));
    } else {
        w->unclear = 1;
    }
}

/* Returns the name of a variable, of one in a function without the function: the site has that. NULL: it is a
 * constant of clang's, a string or a local variable's initial value. */
static char *naming_variable(LLVMValueRef v)
{
    char *name = LLVMGetLinkage(v) == LLVMPrivateLinkage ? NULL : mt_shim_demangle(mt_name(v), 0), *in = NULL;
    static const char unnamed[] = "(anonymous namespace"; /* no parameters of a function */
    const size_t n = sizeof unnamed - 1;
    for (char *at = name; at && (at = strstr(at, ")::")); at++)
        if ((size_t)(at - name) < n || memcmp(at - n, unnamed, n) != 0)
            in = at + 3;
    if (in)
        memmove(name, in, strlen(in) + 1);
    return name;
}

static void naming_walk(struct naming *w, LLVMValueRef v)
{
    v = mt_base_of(v);
    for (unsigned i = 0; i < w->nseen; i++)
        if (w->seen[i] == v)
            return;
    if (w->nseen == MAX_SEEN || w->unclear) {
        w->unclear = 1;
        return;
    }
    w->seen[w->nseen++] = v;
    if (LLVMIsAGlobalVariable(v))
        naming_found(w, naming_variable(v));
    else if (LLVMIsAArgument(v))
        naming_found(w, mt_param_name(v));
    else if (mt_opcode(v) == LLVMIntToPtr || mt_opcode(v) == LLVMPtrToInt ||
             slot_step(v) > 0) /* addresses are numbers in PTX */
        naming_walk(w, LLVMGetOperand(v, 0));
    else if (LLVMIsAPHINode(v)) /* a pointer that advances, or one of several */
        for (unsigned i = 0, n = LLVMCountIncoming(v); i < n; i++)
            naming_walk(w, LLVMGetIncomingValue(v, i));
    else if (LLVMIsASelectInst(v)) {
        naming_walk(w, LLVMGetOperand(v, 1));
        naming_walk(w, LLVMGetOperand(v, 2));
    } else if (LLVMIsALoadInst(v))
        naming_load(w, v);
    else if (!LLVMIsUndef(v) && !LLVMIsNull(v))
        w->unclear = 1;
}

/* Returns the source name of a pointer's base; malloc'ed, or NULL if there is none, or several. */
static char *variable_of(LLVMValueRef pointer)
{
    struct naming w = {.nseen = 0};
    naming_walk(&w, pointer);
    if (!w.unclear)
        return w.name;
    free(w.name);
    return NULL;
}

/* Source facts: kernels from nvvm.annotations, the AST side's entries from llvm.global.annotations. */

/* Works around kernel parameters that LLVM 19 reads wrongly: 16 bits for each element of a vector of two
 * bytes, and a byte for each element of a vector of bools, where the host passes bytes and bits. Before
 * that they become integers of the same bytes. */

static int narrow_is_misread(LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind ||
        LLVMGetTypeKind(LLVMGetElementType(type)) != LLVMIntegerTypeKind)
        return 0;
    unsigned bits = LLVMGetIntTypeWidth(LLVMGetElementType(type));
    return bits < 8 || (bits == 8 && LLVMGetVectorSize(type) == 2);
}

static unsigned narrow_bits(LLVMTypeRef type)
{
    return LLVMGetIntTypeWidth(LLVMGetElementType(type)) * LLVMGetVectorSize(type);
}

/* Returns the integer type as passed. */
static LLVMTypeRef narrow_integer(LLVMTypeRef type)
{
    unsigned all = 8;
    while (all < narrow_bits(type))
        all *= 2;
    return LLVMIntTypeInContext(LLVMGetTypeContext(type), all);
}

static LLVMTypeRef narrow_type(LLVMValueRef kernel)
{
    unsigned n = LLVMCountParams(kernel), i = 0, found = 0;
    LLVMTypeRef *types = malloc((n + 1) * sizeof *types), made = NULL;
    for (LLVMValueRef p = LLVMGetFirstParam(kernel); types && p; p = LLVMGetNextParam(p), i++) {
        int misread = narrow_is_misread(LLVMTypeOf(p));
        found |= misread;
        types[i] = misread ? narrow_integer(LLVMTypeOf(p)) : LLVMTypeOf(p);
    }
    if (found)
        made = LLVMFunctionType(LLVMGetReturnType(LLVMGlobalGetValueType(kernel)), types, n, 0);
    free(types);
    return made;
}

static LLVMValueRef narrow_value(LLVMBuilderRef b, LLVMValueRef integer, LLVMTypeRef type)
{
    LLVMTypeRef all = LLVMIntTypeInContext(LLVMGetTypeContext(type), narrow_bits(type));
    return LLVMBuildBitCast(b, LLVMBuildTrunc(b, integer, all, ""), type, "");
}

static void narrow_take_params(LLVMValueRef kernel, LLVMValueRef old)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetTypeContext(LLVMTypeOf(kernel)));
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(kernel)));
    LLVMValueRef to = LLVMGetFirstParam(kernel);
    for (LLVMValueRef p = LLVMGetFirstParam(old); p; p = LLVMGetNextParam(p), to = LLVMGetNextParam(to)) {
        size_t length;
        const char *name = LLVMGetValueName2(p, &length);
        LLVMSetValueName2(to, name, length);
        int same = LLVMTypeOf(p) == LLVMTypeOf(to);
        LLVMReplaceAllUsesWith(p, same ? to : narrow_value(b, to, LLVMTypeOf(p)));
    }
    LLVMDisposeBuilder(b);
}

static void move_function(LLVMValueRef new, LLVMValueRef old);

static int narrow_kernel(LLVMModuleRef module, LLVMValueRef old)
{
    LLVMTypeRef type = LLVMIsDeclaration(old) ? NULL : narrow_type(old);
    if (!type)
        return 0;
    char *name = strdup(mt_name(old));
    LLVMValueRef kernel = LLVMAddFunction(module, "", type);
    move_function(kernel, old);
    narrow_take_params(kernel, old);
    LLVMReplaceAllUsesWith(old, kernel);
    mt_shim_detach_function(old); /* for the reason in instrument.c */
    LLVMSetValueName2(kernel, name, strlen(name));
    free(name);
    return 1;
}

/* Before optimisation and before kernels are named by text. Returns 1 if anything changed. */
static int narrow_params(LLVMModuleRef module)
{
    static const char name[] = "nvvm.annotations";
    unsigned n = LLVMGetNamedMetadataNumOperands(module, name), length;
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes), op[3];
    int changed = 0;
    if (nodes)
        LLVMGetNamedMetadataOperands(module, name, nodes);
    for (unsigned i = 0; nodes && i < n; i++) {
        if (LLVMGetMDNodeNumOperands(nodes[i]) != 3)
            continue;
        LLVMGetMDNodeOperands(nodes[i], op);
        const char *key = LLVMGetMDString(op[1], &length);
        if (op[0] && LLVMIsAFunction(op[0]) && key && length == 6 && !memcmp(key, "kernel", 6))
            changed |= narrow_kernel(module, op[0]);
    }
    free(nodes);
    return changed;
}

/* Works around a bug in LLVM 19, which takes integer to floating-point conversions that round towards zero
 * (llvm.nvvm.i2f.rz and the like) for those that round to nearest. Before that they become conversions
 * that round down, or up for negative numbers. */

static LLVMValueRef rounding_convert(LLVMBuilderRef b, LLVMValueRef call, const char *name, const char *mode)
{
    LLVMValueRef x = LLVMGetOperand(call, 0);
    char other[64];
    snprintf(other, sizeof other, "llvm.nvvm.%s.%s", name, mode);
    LLVMModuleRef m = LLVMGetGlobalParent(mt_callee(call));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(m, LLVMLookupIntrinsicID(other, strlen(other)), NULL, 0);
    return LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, &x, 1, "");
}

static void rounding_replace(LLVMBuilderRef b, LLVMValueRef call, const char *name)
{
    LLVMValueRef x = LLVMGetOperand(call, 0), r;
    LLVMPositionBuilderBefore(b, call);
    r = rounding_convert(b, call, name, "rm");
    if (*name != 'u') {
        LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, x, LLVMConstNull(LLVMTypeOf(x)), "");
        r = LLVMBuildSelect(b, negative, rounding_convert(b, call, name, "rp"), r, "");
    }
    LLVMReplaceAllUsesWith(call, r);
    LLVMInstructionEraseFromParent(call);
}

/* Swaps the operands of redux.sync: clang 19's headers pass its mask as the value and its value as the
 * mask. */
static int rounding_swap_masks(LLVMModuleRef module)
{
    int changed = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!mt_starts(mt_name(f), "llvm.nvvm.redux.sync."))
            continue;
        for (LLVMUseRef use = LLVMGetFirstUse(f); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef call = LLVMGetUser(use),
                         home = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
            if (!strstr(mt_name(home), "__reduce_"))
                continue;
            LLVMValueRef first = LLVMGetOperand(call, 0);
            LLVMSetOperand(call, 0, LLVMGetOperand(call, 1));
            LLVMSetOperand(call, 1, first);
            changed = 1;
        }
    }
    return changed;
}

/* Before optimisation. Returns 1 if anything changed. */
static int keep_rounding(LLVMModuleRef module)
{
    static const char *const names[] = {"i2f", "ui2f", "ll2f", "ull2f", "ll2d", "ull2d"};
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
    int changed = rounding_swap_masks(module);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "llvm.nvvm.%s.rz", names[i]);
        LLVMValueRef f = LLVMGetNamedFunction(module, name);
        for (LLVMUseRef use = f ? LLVMGetFirstUse(f) : NULL, next; use; use = next) {
            LLVMValueRef call = LLVMGetUser(use);
            next = LLVMGetNextUse(use);
            if (!LLVMIsACallInst(call) || mt_callee(call) != f)
                continue;
            rounding_replace(b, call, names[i]);
            changed = 1;
        }
    }
    LLVMDisposeBuilder(b);
    return changed;
}

/* `function` is NULL if optimisation has removed it. */
static struct mt_facts *facts_for(struct mt_unit *u, const char *name, LLVMValueRef function)
{
    for (unsigned i = 0; i < u->nfacts; i++)
        if (function ? u->facts[i].function == function : !strcmp(u->facts[i].name, name))
            return &u->facts[i];
    struct mt_facts *grown = realloc(u->facts, (u->nfacts + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    u->facts = grown;
    u->facts[u->nfacts] = (struct mt_facts){.function = function, .name = strdup(name)};
    return &u->facts[u->nfacts++];
}

static const struct mt_facts *unit_facts(const struct mt_unit *u, LLVMValueRef function)
{
    for (unsigned i = 0; i < u->nfacts; i++)
        if (u->facts[i].function == function)
            return &u->facts[i];
    return NULL;
}

static const struct mt_facts *unit_facts_by_name(const struct mt_unit *u, const char *mangled)
{
    for (unsigned i = 0; i < u->nfacts; i++)
        if (u->facts[i].name && !strcmp(u->facts[i].name, mangled))
            return &u->facts[i];
    return NULL;
}

struct mt_kernel *mt_unit_kernel(struct mt_unit *u, LLVMValueRef function)
{
    for (unsigned i = 0; i < u->nkernels; i++)
        if (u->kernels[i].function == function || !strcmp(u->kernels[i].name, mt_name(function)))
            return &u->kernels[i]; /* by name: also for the clone */
    return NULL;
}

/* Cuts the next TAB field off *text; malloc'ed. */
static char *facts_field(const char **text, const char *end)
{
    const char *tab = memchr(*text, '\t', (size_t)(end - *text));
    const char *stop = tab ? tab : end;
    char *copy = strndup(*text, (size_t)(stop - *text));
    *text = tab ? tab + 1 : end;
    return copy;
}

static void read_facts(struct mt_unit *u, const char *name, LLVMValueRef function, const char *text,
                       size_t length)
{
    const char *end = text + length;
    char *word = facts_field(&text, end);
    struct mt_facts *f = facts_for(u, name, function);
    if (!word || !f) {
        free(word);
        return;
    }
    if (!strcmp(word, "memtrace.skip"))
        f->skip = 1;
    else if (!strcmp(word, "memtrace.trace"))
        f->trace = 1;
    else if ((!strcmp(word, "memtrace.kernel") || !strcmp(word, "memtrace.device")) && !f->pretty) {
        f->pretty = facts_field(&text, end);
        f->file = facts_field(&text, end);
        char *line = facts_field(&text, end), *column = facts_field(&text, end);
        f->line = line ? (unsigned)atoi(line) : 0;
        f->column = column ? (unsigned)atoi(column) : 0;
        free(line);
        free(column);
    } else if (!strcmp(word, "memtrace.cluster"))
        for (int i = 0; i < 3; i++) {
            char *n = facts_field(&text, end);
            f->cluster[i] = n ? (unsigned)atoi(n) : 0;
            free(n);
        }
    free(word);
}

/* Removes our entries, hands each to `taken`, and leaves those of others. Returns their number. */
static int take_annotations(LLVMModuleRef module,
                            void (*taken)(void *, LLVMValueRef function, const char *text, size_t length),
                            void *arg)
{
    LLVMValueRef list = LLVMGetNamedGlobal(module, "llvm.global.annotations");
    LLVMValueRef init = list ? LLVMGetInitializer(list) : NULL;
    int n = init ? LLVMGetNumOperands(init) : 0, kept = 0;
    LLVMValueRef *keep = malloc((size_t)(n + 1) * sizeof *keep);
    for (int i = 0; keep && i < n; i++) {
        LLVMValueRef entry = LLVMGetOperand(init, (unsigned)i);
        const char *text;
        size_t length;
        if (LLVMGetNumOperands(entry) < 2 ||
            !mt_shim_constant_string(LLVMGetOperand(entry, 1), &text, &length) ||
            length < strlen(MT_ANNOTATION) || strncmp(text, MT_ANNOTATION, strlen(MT_ANNOTATION))) {
            keep[kept++] = entry;
            continue;
        }
        LLVMValueRef function = LLVMIsAFunction(LLVMGetOperand(entry, 0));
        if (function)
            taken(arg, function, text, length);
    }
    if (keep && kept < n) {
        LLVMTypeRef type = LLVMGetElementType(LLVMGlobalGetValueType(list));
        LLVMDeleteGlobal(list);
        if (kept) {
            LLVMValueRef a = LLVMConstArray2(type, keep, (uint64_t)kept);
            list = LLVMAddGlobal(module, LLVMTypeOf(a), "llvm.global.annotations");
            LLVMSetInitializer(list, a);
            LLVMSetLinkage(list, LLVMAppendingLinkage);
            LLVMSetSection(list, "llvm.metadata");
        }
    }
    free(keep);
    return n - kept;
}

/* llvm.global.annotations refers to functions, which would keep them from being inlined for good, losing
 * an unused parameter or being removed: the program would be compiled differently than without us. So
 * early in the pipeline the entries become metadata that names functions by text, and device code is
 * optimised as if they did not exist. */
#define FACTS_METADATA "memtrace.facts"

static void keep_as_metadata(void *module, LLVMValueRef function, const char *text, size_t length)
{
    LLVMContextRef c = LLVMGetModuleContext(module);
    const char *name = mt_name(function);
    LLVMMetadataRef fields[2] = {LLVMMDStringInContext2(c, name, strlen(name)),
                                 LLVMMDStringInContext2(c, text, length)};
    LLVMAddNamedMetadataOperand(module, FACTS_METADATA,
                                LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, fields, 2)));
    name_params(function, text, length);
}

/* Keeps malloc calls: LLVM may remove one and assume that it succeeded. nvcc calls it, the heap of kernels
 * is small, and stores to it are traced. */
static int facts_keep_malloc(LLVMModuleRef module)
{
    LLVMValueRef f = LLVMGetNamedFunction(module, "malloc");
    if (f)
        LLVMAddAttributeAtIndex(
            f, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(LLVMGetModuleContext(module),
                                    LLVMGetEnumAttributeKindForName("nobuiltin", strlen("nobuiltin")), 0));
    return f != NULL;
}

/* Returns 1 if the instruction writes at the address `v`. */
static int constant_is_written(LLVMValueRef inst, LLVMValueRef v)
{
    if (LLVMIsAStoreInst(inst))
        return LLVMGetOperand(inst, 1) == v;
    if (LLVMIsAAtomicRMWInst(inst) || LLVMIsAAtomicCmpXchgInst(inst) || LLVMIsAMemIntrinsic(inst))
        return LLVMGetOperand(inst, 0) == v;
    return 0;
}

/* Replaces the instruction by a trap. */
static void constant_trap(LLVMValueRef inst)
{
    static const char name[] = "llvm.trap";
    LLVMModuleRef module = LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst)));
    LLVMValueRef f =
        LLVMGetIntrinsicDeclaration(module, LLVMLookupIntrinsicID(name, sizeof name - 1), NULL, 0);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
    LLVMPositionBuilderBefore(b, inst);
    LLVMSetCurrentDebugLocation2(b, LLVMInstructionGetDebugLoc(inst));
    LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, NULL, 0, "");
    LLVMDisposeBuilder(b);
    mt_shim_diag(LLVMGetModuleContext(module), inst, MT_DIAG_WARNING,
                 "a kernel cannot write to constant memory: the code traps here");
    if (LLVMGetFirstUse(inst))
        LLVMReplaceAllUsesWith(inst, LLVMGetUndef(LLVMTypeOf(inst)));
    LLVMInstructionEraseFromParent(inst);
}

/* Replaces each write at an address that is computed from `v`. Returns the number of traps. */
static int constant_trap_uses(LLVMValueRef v)
{
    int n = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(v), next; use; use = next) {
        LLVMValueRef user = LLVMGetUser(use);
        LLVMOpcode op = mt_opcode(user);
        next = LLVMGetNextUse(use);
        if (op == LLVMGetElementPtr || op == LLVMAddrSpaceCast || op == LLVMBitCast)
            n += constant_trap_uses(user);
        else if (LLVMIsAInstruction(user) && constant_is_written(user, v)) {
            constant_trap(user);
            next = LLVMGetFirstUse(v); /* the next one may have been of this instruction, too */
            n++;
        }
    }
    return n;
}

int mt_trap_constants(LLVMModuleRef module)
{
    enum { CONSTANT_MEMORY = 4 };
    int n = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(module); g; g = LLVMGetNextGlobal(g))
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == CONSTANT_MEMORY)
            n += constant_trap_uses(g);
    return n;
}

int mt_keep_annotations(LLVMModuleRef module)
{
    if (!take_annotations(module, keep_as_metadata, module))
        return 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        mt_shim_drop_dead_users(f); /* the entries' constants */
    return 1;
}

static int show_asm_effects(LLVMModuleRef module);

int mt_pass_early(LLVMModuleRef module)
{
    int device = mt_shim_is_nvptx(module), changed = 0;
    if (device)
        changed = narrow_params(module) | keep_rounding(module) | show_asm_effects(module) |
                  facts_keep_malloc(module) | mt_trap_constants(module);
    return ((device || mt_pass_options.host) && mt_keep_annotations(module)) || changed;
}

static void read_taken(void *unit, LLVMValueRef function, const char *text, size_t length)
{
    read_facts(unit, mt_name(function), function, text, length);
    name_params(function, text, length);
}

static void read_metadata(struct mt_unit *u)
{
    unsigned n = LLVMGetNamedMetadataNumOperands(u->module, FACTS_METADATA);
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes), fields[2];
    if (nodes)
        LLVMGetNamedMetadataOperands(u->module, FACTS_METADATA, nodes);
    for (unsigned i = 0; nodes && i < n; i++) {
        unsigned name_length, length;
        if (LLVMGetMDNodeNumOperands(nodes[i]) != 2)
            continue;
        LLVMGetMDNodeOperands(nodes[i], fields);
        const char *name = LLVMGetMDString(fields[0], &name_length);
        const char *text = LLVMGetMDString(fields[1], &length);
        char *function = name && text ? strndup(name, name_length) : NULL;
        if (function)
            read_facts(u, function, LLVMGetNamedFunction(u->module, function), text, length);
        free(function);
    }
    free(nodes);
    mt_shim_erase_named_metadata(u->module, FACTS_METADATA);
}

/* Removes functions made superfluous by inlining that only annotations kept. */
static void drop_unused(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nfacts; i++) {
        LLVMValueRef f = u->facts[i].function;
        if (!f)
            continue;
        mt_shim_drop_dead_users(f);
        LLVMLinkage l = LLVMGetLinkage(f);
        if (LLVMGetFirstUse(f) || !(l == LLVMInternalLinkage || l == LLVMPrivateLinkage ||
                                    l == LLVMLinkOnceODRLinkage || l == LLVMLinkOnceAnyLinkage))
            continue;
        u->facts[i].function = NULL;
        LLVMDeleteFunction(f);
    }
}

static int facts_matches(const char *pattern, const char *text)
{
    regex_t re;
    char why[200];
    if (mt_regex(&re, pattern, why, sizeof why))
        return 0;
    int hit = !regexec(&re, text, 0, NULL, 0);
    regfree(&re);
    return hit;
}

static void add_kernel(struct mt_unit *u, LLVMValueRef function)
{
    if (LLVMIsDeclaration(function) || mt_unit_kernel(u, function))
        return;
    struct mt_kernel *grown = realloc(u->kernels, (u->nkernels + 1) * sizeof *grown);
    if (!grown)
        return;
    u->kernels = grown;
    struct mt_kernel *k = &u->kernels[u->nkernels++];
    const struct mt_facts *f = unit_facts(u, function);
    *k = (struct mt_kernel){.function = function, .name = strdup(mt_name(function))};
    k->nparams = LLVMCountParams(function);
    k->pretty = mt_shim_demangle(k->name, 0);
    k->signature = mt_shim_demangle(k->name, 1);
    k->file = strdup(f && f->file ? f->file : "");
    k->line = f ? f->line : 0;
    if (f)
        memcpy(k->cluster, f->cluster, sizeof k->cluster);
    k->traced = 1;
    if (u->options->kernels && !facts_matches(u->options->kernels, k->pretty))
        k->traced = 0;
    if (u->options->exclude && facts_matches(u->options->exclude, k->pretty))
        k->traced = 0;
    if (f && f->skip)
        k->traced = 0;
    if (f && f->trace)
        k->traced = 1;
}

static void read_kernels(struct mt_unit *u)
{
    unsigned n = LLVMGetNamedMetadataNumOperands(u->module, "nvvm.annotations");
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes);
    if (!nodes)
        return;
    LLVMGetNamedMetadataOperands(u->module, "nvvm.annotations", nodes);
    for (int round = 0; round < 2; round++) /* first all kernels, then their bounds */
        for (unsigned i = 0; i < n; i++) {
            unsigned count = LLVMGetMDNodeNumOperands(nodes[i]);
            LLVMValueRef op[32];
            if (count < 3 || count > 32)
                continue;
            LLVMGetMDNodeOperands(nodes[i], op);
            LLVMValueRef function = op[0] ? LLVMIsAFunction(op[0]) : NULL;
            for (unsigned j = 1; function && j + 1 < count; j += 2) {
                unsigned length;
                const char *key = LLVMGetMDString(op[j], &length);
                LLVMValueRef number = op[j + 1] ? LLVMIsAConstantInt(op[j + 1]) : NULL;
                if (!key || !number)
                    continue;
                unsigned value = (unsigned)LLVMConstIntGetZExtValue(number);
                struct mt_kernel *k = mt_unit_kernel(u, function);
                if (!round && length == 6 && !memcmp(key, "kernel", 6))
                    add_kernel(u, function);
                else if (round && k && length == 7 && !memcmp(key, "maxntid", 7))
                    k->max_threads = (k->max_threads ? k->max_threads : 1) * value;
                else if (round && k && length == 8 && !memcmp(key, "maxntidx", 8))
                    k->max_threads = (k->max_threads ? k->max_threads : 1) * value;
                else if (round && k && length == 8 && !memcmp(key, "minctasm", 8))
                    k->min_blocks = value;
            }
        }
    free(nodes);
}

void mt_unit_read_facts(struct mt_unit *u)
{
    read_metadata(u);
    take_annotations(u->module, read_taken, u); /* for modules without an early pass */
    drop_unused(u);
    read_kernels(u);
}

/* Tells LLVM the memory effects of inline assembly. Clang takes asm without `volatile` and without a
 * "memory" clobber for a function of its operands: LLVM then drops an atomic with an unused result, merges
 * two into one, and reads once a word that others write meanwhile. nvcc does neither of the latter two,
 * and clang's headers have such asm for nvcc's separate atomic instructions (atomicAdd of float2). */

static enum mt_asm_effect effects_of(LLVMValueRef call)
{
    struct mt_asm_error error;
    size_t length;
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, &error);
    enum mt_asm_effect e = a ? mt_asm_effect_of(a) : MT_ASM_ACTS;
    mt_asm_free(a);
    return e;
}

/* Returns 1 for asm that LLVM takes for a function of its operands. */
static int effects_are_hidden(LLVMValueRef inst)
{
    LLVMValueRef asm_value = LLVMIsACallInst(inst) ? LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) : NULL;
    size_t length;
    return asm_value && !LLVMGetInlineAsmHasSideEffects(asm_value) &&
           !strstr(LLVMGetInlineAsmConstraintString(asm_value, &length), "~{memory}");
}

/* Returns the same asm with a side effect, or marked as reading memory. */
static LLVMValueRef effects_add(LLVMValueRef old, enum mt_asm_effect effect)
{
    size_t text_length, length;
    const char *text = LLVMGetInlineAsmAsmString(old, &text_length);
    const char *constraints = LLVMGetInlineAsmConstraintString(old, &length);
    char *more = malloc(length + sizeof ",~{memory}");
    if (!more)
        return old;
    int n = sprintf(more, "%.*s%s", (int)length, constraints, effect == MT_ASM_ACTS ? "" : ",~{memory}");
    LLVMValueRef new = LLVMGetInlineAsm(LLVMGetInlineAsmFunctionType(old), text, text_length, more, (size_t)n,
                                        effect == MT_ASM_ACTS, LLVMGetInlineAsmNeedsAlignedStack(old),
                                        LLVMGetInlineAsmDialect(old), LLVMGetInlineAsmCanUnwind(old));
    free(more);
    return new;
}

/* Before optimisation: tells LLVM the memory effects of inline asm. Returns 1 if anything
 * changed. */
static int show_asm_effects(LLVMModuleRef module)
{
    int changed = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n;
        LLVMValueRef *list = mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            enum mt_asm_effect effect = effects_are_hidden(list[i]) ? effects_of(list[i]) : MT_ASM_NOTHING;
            if (effect == MT_ASM_NOTHING)
                continue;
            LLVMSetOperand(list[i], (unsigned)LLVMGetNumOperands(list[i]) - 1,
                           effects_add(LLVMGetCalledValue(list[i]), effect));
            if (effect == MT_ASM_ACTS)
                mt_shim_make_impure(list[i]);
            else
                mt_shim_only_reads(list[i]);
            changed = 1;
        }
        free(list);
    }
    return changed;
}

void mt_drop_unused_asm(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n;
        LLVMValueRef *list = mt_instructions(f, &n);
        for (unsigned i = n; list && i-- > 0;) /* users of a result come after it */
            if (LLVMIsACallInst(list[i]) && LLVMIsAInlineAsm(LLVMGetCalledValue(list[i])) &&
                !LLVMGetFirstUse(list[i]) && mt_shim_asm_only_reads(list[i]))
                LLVMInstructionEraseFromParent(list[i]);
        free(list);
    }
}

/* Memory accesses of an NVPTX IR instruction, with their address space. Address spaces of NVPTX: 0
 * generic, 1 global, 3 shared, 4 constant, 5 local, 101 parameter. A generic pointer is traced to its
 * base; unproven cases are tested at run time. A kernel's pointer parameters, and pointers loaded from its
 * by-value parameters, are global: the CUDA ABI says so, and LLVM's own NVPTXLowerArgs relies on it. */

#define MAX_DEPTH 64

struct walk {
    struct mt_unit *u;
    LLVMValueRef seen[MAX_DEPTH];
    unsigned nseen;
};

static enum mt_space of_address_space(unsigned as)
{
    static const enum mt_space known[] = {MT_SPACE_GENERIC, MT_SPACE_GLOBAL, MT_SPACE_OTHER,
                                          MT_SPACE_SHARED,  MT_SPACE_OTHER,  MT_SPACE_LOCAL};
    return as < sizeof known / sizeof *known ? known[as] : MT_SPACE_OTHER;
}

/* Joins two paths: NONE (no information: undef, null, a cycle) yields to the other. */
static enum mt_space access_join(enum mt_space a, enum mt_space b)
{
    if (a == MT_SPACE_NONE)
        return b;
    if (b == MT_SPACE_NONE || a == b)
        return a;
    if (!mt_space_may_be_global(a) && !mt_space_may_be_global(b))
        return MT_SPACE_ON_CHIP;
    return MT_SPACE_GENERIC;
}

static int is_kernel_argument(struct mt_unit *u, LLVMValueRef argument, int *byval)
{
    LLVMValueRef f = LLVMGetParamParent(argument);
    unsigned i = 0;
    for (LLVMValueRef a = LLVMGetFirstParam(f); a && a != argument; a = LLVMGetNextParam(a))
        i++;
    *byval = mt_shim_byval_type(f, i) != NULL;
    return mt_unit_kernel(u, f) != NULL;
}

static enum mt_space access_walk(struct walk *w, LLVMValueRef v);

/* Handles a phi or select, one of several values. */
static enum mt_space access_walk_joined(struct walk *w, LLVMValueRef v)
{
    enum mt_space s = MT_SPACE_NONE;
    for (unsigned i = 0, n = LLVMIsAPHINode(v) ? LLVMCountIncoming(v) : 2; i < n; i++)
        s = access_join(
            s, access_walk(w, LLVMIsAPHINode(v) ? LLVMGetIncomingValue(v, i) : LLVMGetOperand(v, i + 1)));
    return s;
}

/* Handles an address as a number: an offset from an address in a known space is in the same space. */
static enum mt_space access_walk_number(struct walk *w, LLVMValueRef v)
{
    enum mt_space a, b;
    switch (mt_opcode(v)) {
    case LLVMPtrToInt:
        return access_walk(w, LLVMGetOperand(v, 0));
    case LLVMAdd:
    case LLVMOr:
        a = access_walk(w, LLVMGetOperand(v, 0));
        b = access_walk(w, LLVMGetOperand(v, 1));
        return a == MT_SPACE_GENERIC ? b : b == MT_SPACE_GENERIC ? a : access_join(a, b);
    case LLVMPHI:
    case LLVMSelect:
        return access_walk_joined(w, v);
    default:
        return LLVMIsNull(v) ? MT_SPACE_NONE : MT_SPACE_GENERIC;
    }
}

static enum mt_space access_walk(struct walk *w, LLVMValueRef v)
{
    int number = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMIntegerTypeKind;
    if (!number && LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMPointerTypeKind)
        return MT_SPACE_GENERIC;
    unsigned as = number ? 0 : LLVMGetPointerAddressSpace(LLVMTypeOf(v));
    if (as)
        return of_address_space(as);
    for (unsigned i = 0; i < w->nseen; i++)
        if (w->seen[i] == v)
            return MT_SPACE_NONE;
    if (w->nseen == MAX_DEPTH)
        return MT_SPACE_GENERIC;
    w->seen[w->nseen++] = v;
    if (number)
        return access_walk_number(w, v);

    if (LLVMIsAGlobalVariable(v))
        return MT_SPACE_GLOBAL; /* generic variables (string and table constants) live in .global */
    if (LLVMIsAFunction(v))
        return MT_SPACE_OTHER;
    if (LLVMIsUndef(v) || LLVMIsNull(v) || LLVMIsPoison(v))
        return MT_SPACE_NONE;
    if (LLVMIsAArgument(v)) {
        int byval, kernel = is_kernel_argument(w->u, v, &byval);
        return byval ? MT_SPACE_OTHER : kernel ? MT_SPACE_GLOBAL : MT_SPACE_GENERIC;
    }
    switch (mt_opcode(v)) {
    case LLVMAlloca:
        return MT_SPACE_LOCAL;
    case LLVMGetElementPtr:
    case LLVMBitCast:
    case LLVMAddrSpaceCast:
    case LLVMFreeze:
    case LLVMIntToPtr:
        return access_walk(w, LLVMGetOperand(v, 0));
    case LLVMSelect:
    case LLVMPHI:
        return access_walk_joined(w, v);
    case LLVMLoad: { /* a pointer from a kernel's by-value parameter */
        LLVMValueRef base = mt_base_of(LLVMGetOperand(v, 0));
        int byval;
        if (LLVMIsAArgument(base) && is_kernel_argument(w->u, base, &byval) && byval)
            return MT_SPACE_GLOBAL;
        return MT_SPACE_GENERIC;
    }
    case LLVMCall: {
        const char *name = mt_name(mt_callee(v));
        if (!strcmp(name, "malloc"))
            return MT_SPACE_GLOBAL;
        return MT_SPACE_GENERIC;
    }
    default:
        return MT_SPACE_GENERIC;
    }
}

enum mt_space mt_space_of(struct mt_unit *u, LLVMValueRef pointer)
{
    struct walk w = {.u = u};
    enum mt_space s = access_walk(&w, pointer);
    return s == MT_SPACE_NONE ? MT_SPACE_GENERIC : s;
}

static uint32_t instrument_size_of(struct mt_unit *u, LLVMTypeRef type)
{
    return (uint32_t)LLVMStoreSizeOfType(u->layout, type);
}

static int space_is_recorded(const struct mt_unit *u, enum mt_space s);

static int access_one(struct mt_unit *u, struct mt_access *a, enum mt_access_type op, LLVMValueRef pointer,
                      uint32_t size)
{
    *a = (struct mt_access){.op = op, .pointer = pointer, .size = size, .space = mt_space_of(u, pointer)};
    return space_is_recorded(u, a->space) && size != 0;
}

/* Returns a name for messages. Textures and surfaces have no addresses; the instructions come from the
 * toolchain's headers. */
static const char *kind_of_asm(const char *body)
{
    return strstr(body, "tex.") || strstr(body, "tld4.") ? "texture read"
           : strstr(body, "suld.")                       ? "surface read"
           : strstr(body, "sust.")                       ? "surface write"
                                                         : "inline asm";
}

static int of_asm(struct mt_unit *u, LLVMValueRef call, struct mt_access out[MT_MAX_ACCESSES],
                  const char **what)
{
    static char text[160];
    struct mt_asm_access raw[MT_MAX_ACCESSES];
    struct mt_asm_barrier barrier;
    int found = mt_asm_accesses(call, raw, MT_MAX_ACCESSES), n = 0;
    int word = u->options->spaces && mt_asm_barrier_of(call, &barrier) && barrier.word;
    if (found < 0) {
        size_t length;
        const char *body = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
        snprintf(text, sizeof text, "%s: %.120s", kind_of_asm(body), body);
        for (char *c = text; *c; c++)
            if (*c == '\n' || *c == '\t')
                *c = ' ';
        *what = text;
        return -1;
    }
    for (int i = 0; i < found; i++) {
        struct mt_access *a = &out[n];
        if (raw[i].argument < 0) { /* address computed inside the asm: no value to record */
            *what = "inline asm with an address computed inside it";
            return -1;
        }
        LLVMValueRef pointer = LLVMGetOperand(call, (unsigned)raw[i].argument);
        *a = (struct mt_access){.op = raw[i].op,
                                .pointer = pointer,
                                .offset = raw[i].offset,
                                .size = raw[i].size,
                                .space = raw[i].generic ? MT_SPACE_GENERIC : MT_SPACE_GLOBAL,
                                .global_only = word};
        if (raw[i].generic)
            a->space = mt_space_of(u, pointer);
        if (raw[i].size_argument >= 0)
            a->bytes = LLVMGetOperand(call, (unsigned)raw[i].size_argument);
        if (raw[i].predicated && raw[i].only_if < 0) {
            *what = "inline asm under a predicate of its own";
            return -1;
        }
        if (raw[i].predicated) {
            a->only_if = LLVMGetOperand(call, (unsigned)raw[i].only_if);
            a->only_if_not = raw[i].only_if_inverted;
        }
        n += word ? mt_space_may_be_global(a->space) : space_is_recorded(u, a->space);
    }
    return n;
}

/* Lists the shared memory accesses of inline asm, as of_asm. */
static int shared_accesses_of_asm(struct mt_unit *u, LLVMValueRef call, struct mt_access out[MT_MAX_ACCESSES])
{
    struct mt_asm_access raw[MT_MAX_ACCESSES];
    int n = mt_asm_shared_accesses(call, raw, MT_MAX_ACCESSES);
    for (int i = 0; i < n; i++) {
        if (raw[i].argument < 0 || raw[i].predicated)
            return -1;
        out[i] = (struct mt_access){.op = raw[i].op,
                                    .pointer = LLVMGetOperand(call, (unsigned)raw[i].argument),
                                    .offset = raw[i].offset,
                                    .size = raw[i].size,
                                    .lanes = raw[i].lanes,
                                    .space = MT_SPACE_SHARED};
        if (raw[i].size_argument >= 0)
            out[i].bytes = LLVMGetOperand(call, (unsigned)raw[i].size_argument);
    }
    return n;
}

/* Fills out[]. Returns their number, or -1 if the instruction touches global memory in a way without a
 * record (*what, static or valid until the next call, says how). */
static int access_of(struct mt_unit *u, LLVMValueRef inst, struct mt_access out[MT_MAX_ACCESSES],
                     const char **what)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        return access_one(u, &out[0], MT_LOAD, LLVMGetOperand(inst, 0),
                          instrument_size_of(u, LLVMTypeOf(inst)));
    case LLVMStore:
        return access_one(u, &out[0], MT_STORE, LLVMGetOperand(inst, 1),
                          instrument_size_of(u, LLVMTypeOf(LLVMGetOperand(inst, 0))));
    case LLVMAtomicRMW:
        return access_one(u, &out[0], MT_ATOMIC, LLVMGetOperand(inst, 0),
                          instrument_size_of(u, LLVMTypeOf(inst)));
    case LLVMAtomicCmpXchg:
        return access_one(u, &out[0], MT_ATOMIC, LLVMGetOperand(inst, 0),
                          instrument_size_of(u, LLVMTypeOf(LLVMGetOperand(inst, 1))));
    case LLVMCall:
        return LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) ? of_asm(u, inst, out, what) : 0;
    default:
        return 0;
    }
}

/* Shared and local memory, and operations that order accesses there (option spaces). CPU device:
 * runtime/cpu/builtins/access.c; GPU: llvm-pass/gpu/context.c. */

/* Returns 1 if accesses there are recorded (option spaces). */
static int space_is_recorded(const struct mt_unit *u, enum mt_space s)
{
    uint32_t spaces = u->options->spaces;
    return mt_space_may_be_global(s) || (s == MT_SPACE_SHARED && spaces & MT_SPACES_SHARED) ||
           (s == MT_SPACE_LOCAL && spaces & MT_SPACES_LOCAL) || (s == MT_SPACE_ON_CHIP && spaces);
}

/* Returns the part of a record function's name for the space: "global", "generic", "shared", "number",
 * "any". */
static const char *space_word(const struct mt_unit *u, enum mt_space s)
{
    switch (s) {
    case MT_SPACE_GLOBAL:
        return "global";
    case MT_SPACE_SHARED:
        return "shared";
    case MT_SPACE_LOCAL:
        return "number";
    default:
        return u->options->spaces ? "any" : "generic";
    }
}

/* Returns the access type in the record call. */
static uint32_t space_type(const struct mt_unit *u, const struct mt_access *a)
{
    switch (a->space) {
    case MT_SPACE_GLOBAL:
        return a->op;
    case MT_SPACE_SHARED:
        return mt_rec_type_in(a->op, MT_IN_SHARED);
    case MT_SPACE_LOCAL:
        return mt_rec_type_in(a->op, MT_IN_LOCAL);
    default: /* wanted spaces, for the record function */
        return a->op | u->options->spaces << 2;
    }
}

static int by_variable(const void *a, const void *b)
{
    const struct mt_local *x = a, *y = b;
    return x->variable < y->variable ? -1 : x->variable > y->variable;
}

static void spaces_add_local(struct mt_unit *u, LLVMValueRef variable, uint64_t *at)
{
    uint64_t align = LLVMGetAlignment(variable) ? LLVMGetAlignment(variable) : 1;
    LLVMValueRef count = LLVMGetOperand(variable, 0);
    *at = (*at + align - 1) / align * align;
    if (mt_grow(&u->locals, &u->locals_cap, u->nlocals + 1, sizeof *u->locals) != 0)
        return;
    u->locals[u->nlocals++] = (struct mt_local){variable, *at};
    *at += LLVMABISizeOfType(u->layout, LLVMGetAllocatedType(variable)) *
           (LLVMIsAConstantInt(count) ? LLVMConstIntGetZExtValue(count) : 1);
}

uint64_t mt_unit_local_at(struct mt_unit *u, LLVMValueRef variable)
{
    uint64_t at = 0;
    struct mt_local key = {.variable = variable}, *found;
    if (!u->locals) {
        for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
            for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
                for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                    if (LLVMIsAAllocaInst(i))
                        spaces_add_local(u, i, &at);
        if (u->nlocals)
            qsort(u->locals, u->nlocals, sizeof *u->locals, by_variable);
    }
    found = bsearch(&key, u->locals, u->nlocals, sizeof key, by_variable);
    return found ? found->at : 0;
}

/* Turns a pointer to local memory into a number, as a pointer that is not dereferenced. base: the variable
 * that it is computed from, or NULL. */
static LLVMValueRef local_number(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef pointer, LLVMValueRef base)
{
    LLVMTypeRef i64 = mt_type_int(u, 64);
    LLVMValueRef at = LLVMBuildPtrToInt(b, pointer, i64, "");
    if (base) {
        at = LLVMBuildSub(b, at, LLVMBuildPtrToInt(b, base, i64, ""), "");
        at = LLVMBuildAdd(b, at, LLVMConstInt(i64, mt_unit_local_at(u, base), 0), "");
    } else { /* one of several */
        at = LLVMBuildAnd(b, at, LLVMConstInt(i64, 0xffffff, 0), "");
    }
    return LLVMBuildIntToPtr(b, at, mt_type_ptr(u), "");
}

/* ---- barriers ---- */

static int spaces_sync_of_asm(struct mt_unit *u, LLVMValueRef inst, struct mt_sync *out)
{
    LLVMTypeRef i64 = mt_type_int(u, 64);
    struct mt_asm_barrier found;
    if (!mt_asm_barrier_of(inst, &found))
        return 0;
    out->kind = found.kind;
    out->what = found.argument < 0 ? LLVMConstInt(i64, found.number, 0)
                                   : LLVMGetOperand(inst, (unsigned)found.argument);
    out->size = found.copy                   ? found.copy
                : found.object               ? MT_SYNC_OF_OBJECT
                : found.kind != MT_SYNC_WARP ? MT_SYNC_OF_NUMBER
                                             : MT_SYNC_OF_LANES;
    if (found.kind == MT_SYNC_WARP && found.argument < 0 && found.number == MT_BARRIER_UNKNOWN)
        out->size = MT_SYNC_OF_NUMBER; /* the mask is computed in the asm */
    out->object = found.object;
    if (!found.object)
        return 1;
    out->offset = found.offset;
    out->init = found.init;
    if (found.phase >= 0)
        out->parity = LLVMGetOperand(inst, (unsigned)found.phase);
    else if (found.parity >= 0)
        out->parity = LLVMConstInt(i64, (uint64_t)found.parity, 0);
    out->output = found.result;
    return 1;
}

/* Returns 1 or 0. Records of waits for objects come after the instruction. */
static int sync_of(struct mt_unit *u, LLVMValueRef inst, struct mt_sync *out)
{
    *out = (struct mt_sync){.size = MT_SYNC_OF_NUMBER, .output = -1};
    return u->options->spaces & MT_SPACES_SHARED && LLVMIsACallInst(inst) &&
           LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) && spaces_sync_of_asm(u, inst, out);
}

/* ---- Record calls of tensor copies ---- */

#define MOST_ARGUMENTS 9
#define RECORD "__mt_access_tensor"

static void tensor_call(struct mt_unit *u, LLVMBuilderRef b, const char *name, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef types[MOST_ARGUMENTS];
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), types, n, 0);
    LLVMBuildCall2(b, type, mt_declare(u->module, name, type), args, n, "");
}

static LLVMValueRef tensor_number(struct mt_unit *u, uint32_t n)
{
    return LLVMConstInt(mt_type_int(u, 32), n, 0);
}

static LLVMValueRef tensor_site(struct mt_unit *u, LLVMValueRef call, uint32_t type,
                                const struct mt_asm_warp_access *a)
{
    return tensor_number(u, mt_unit_add_site(u, call, type, 0, 0, variable_of(a->address)));
}

static int tensor_is_wanted(const struct mt_unit *u, enum mt_access_type op)
{
    return !u->options->only || u->options->only >> op & 1;
}

static void record_tensor(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call,
                          const struct mt_asm_warp_access *a)
{
    LLVMValueRef map = LLVMBuildIntToPtr(b, a->address, mt_type_ptr(u), "");
    enum mt_access_type op = a->op == MT_LOAD ? MT_STORE : MT_LOAD; /* operation on shared memory */
    if (u->options->spaces & MT_SPACES_SHARED && tensor_is_wanted(u, op)) {
        uint32_t type = mt_rec_type_in(op, MT_IN_SHARED);
        LLVMValueRef shared = LLVMBuildIntToPtr(b, a->shared, mt_type_ptr(u), "");
        LLVMValueRef args[] = {map,     tensor_number(u, a->rank), shared,
                               a->ctas, tensor_number(u, type),    tensor_site(u, call, type, a)};
        tensor_call(u, b, RECORD "_shared", args, 6);
    }
    if (tensor_is_wanted(u, a->op)) {
        LLVMValueRef args[] = {map,
                               tensor_number(u, a->rank),
                               tensor_number(u, a->op),
                               a->at[0],
                               a->at[1],
                               a->at[2],
                               a->at[3],
                               a->at[4],
                               tensor_site(u, call, a->op, a)};
        tensor_call(u, b, RECORD, args, 9);
    }
}

void mt_unit_untrace_tensors(struct mt_unit *u)
{
    static const char *const names[] = {RECORD, RECORD "_shared"};
    LLVMTypeRef i32 = mt_type_int(u, 32);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), &i32, 1, 0);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(u->context);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        LLVMValueRef f = LLVMGetNamedFunction(u->module, names[i]), zero = tensor_number(u, 0);
        for (LLVMUseRef use; f && (use = LLVMGetFirstUse(f));) {
            LLVMValueRef call = LLVMGetUser(use);
            LLVMPositionBuilderBefore(b, call);
            LLVMBuildCall2(b, type, mt_declare(u->module, "__mt_untraced", type), &zero, 1, "");
            LLVMInstructionEraseFromParent(call);
        }
        if (f)
            LLVMDeleteFunction(f);
    }
    LLVMDisposeBuilder(b);
}

/* The site table (one entry per traced access in the code), the note table (accesses without a record,
 * code that the CPU device cannot run), and the choice of source locations to trace. */

/* Returns the expression's name if the pointer has none, or a longer one: `grid.cells` for `grid`, a
 * member for `this`. */
static char *sites_variable(const struct mt_source_location *place, uint32_t op, uint32_t size,
                            char *variable)
{
    static const enum mt_named_access named[] = {
        [MT_LOAD] = MT_NAMED_LOAD, [MT_STORE] = MT_NAMED_STORE, [MT_ATOMIC] = MT_NAMED_ATOMIC};
    size_t n = variable ? strlen(variable) : 0;
    const char *name = NULL;
    if ((op & 3) <= MT_ATOMIC && mt_rec_space(op) <= MT_IN_LOCAL)
        name = mt_pass_access_name(place->file, place->line, place->column, named[op & 3], size);
    if (variable &&
        (!name || (strcmp(variable, "this") && (strncmp(name, variable, n) || !strchr(".-", name[n])))))
        return variable;
    free(variable);
    return strdup(name ? name : "");
}

/* Returns scope and order. Atomics of plain IR were opcodes without either. An access that is volatile only
 * in our own IR, to stay one access, is not volatile in the program. */
static struct mt_asm_strength sites_strength(LLVMValueRef inst)
{
    static const struct mt_asm_strength weak, is_volatile = {MT_SCOPE_SYS, MT_ORDER_VOLATILE, 0};
    if (LLVMIsACallInst(inst))
        return LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) ? mt_asm_strength_of(inst) : weak;
    if (!LLVMIsALoadInst(inst) && !LLVMIsAStoreInst(inst))
        return (struct mt_asm_strength){MT_SCOPE_GPU, MT_ORDER_RELAXED,
                                        LLVMIsAAtomicRMWInst(inst) &&
                                            LLVMGetAtomicRMWBinOp(inst) == LLVMAtomicRMWBinOpXchg};
    return LLVMGetVolatile(inst) && !mt_ptx_kept_as(inst) ? is_volatile : weak;
}

uint32_t mt_unit_add_site(struct mt_unit *u, LLVMValueRef inst, uint32_t op, uint32_t size, uint32_t align,
                          char *variable)
{
    struct mt_source_location place;
    if (mt_grow(&u->sites, &u->sites_cap, u->nsites + 1, sizeof *u->sites)) {
        free(variable);
        return 0;
    }
    mt_shim_location(inst, &place);
    const char *function = place.function;
    if (!*function)
        function = mt_name(LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst)));
    const struct mt_asm_strength strength = sites_strength(inst);
    char *plain = mt_shim_demangle(function, 0), *into = mt_shim_inlined_into(inst), *both = NULL;
    if (plain && into && *into && asprintf(&both, "%s%s", plain, into) < 0)
        both = NULL;
    free(into);
    if (both)
        free(plain);
    u->sites[u->nsites] =
        (struct mt_site){.file = strdup(place.file),
                         .function = both ? both : plain,
                         .variable = sites_variable(&place, op, size, variable),
                         .line = place.line,
                         .column = place.column,
                         .op = op,
                         .size = size,
                         .align = align,
                         .scope = strength.scope,
                         .order = strength.order,
                         .overwrites = strength.exchanges && (op & 3) == MT_ATOMIC && !LLVMGetFirstUse(inst)};
    return u->nsites++;
}

uint32_t mt_unit_add_note(struct mt_unit *u, LLVMValueRef inst, uint32_t kind, const char *what)
{
    struct mt_source_location place;
    if (mt_grow(&u->notes, &u->notes_cap, u->nnotes + 1, sizeof *u->notes))
        return 0;
    mt_shim_location(inst, &place);
    u->notes[u->nnotes] = (struct mt_note){strdup(what), strdup(place.file), place.line, kind};
    return u->nnotes++;
}

void mt_unit_name_sites(struct mt_unit *u)
{
    uint64_t h = 1469598103934665603u;
    for (unsigned i = 0; i < u->nsites; i++) {
        const struct mt_site *s = &u->sites[i];
        const uint32_t numbers[] = {s->line, s->column, s->op, s->size};
        h = mt_hash_bytes(h, s->file, strlen(s->file) + 1);
        h = mt_hash_bytes(h, s->function, strlen(s->function) + 1);
        h = mt_hash_bytes(h, numbers, sizeof numbers);
    }
    u->site_variable = u->nsites ? malloc(40) : NULL;
    if (u->site_variable)
        snprintf(u->site_variable, 40, "__mt_site_base_%016llx", (unsigned long long)h);
}

static int same_file(const char *a, const char *b)
{
    if (!strcmp(a, b))
        return 1;
    /* One path may be relative: compare whole trailing components. */
    size_t na = strlen(a), nb = strlen(b);
    const char *lo = na > nb ? a : b, *sh = na > nb ? b : a;
    size_t nl = na > nb ? na : nb, ns = na > nb ? nb : na;
    while (ns > 2 && sh[0] == '.' && sh[1] == '/') {
        sh += 2;
        ns -= 2;
    }
    return sh[0] != '/' && nl > ns && lo[nl - ns - 1] == '/' && !strcmp(lo + nl - ns, sh);
}

int mt_unit_wanted(const struct mt_unit *u, LLVMValueRef inst)
{
    struct mt_source_location place;
    mt_shim_location(inst, &place);
    LLVMValueRef home = LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst));
    const struct mt_facts *f = *place.function ? unit_facts_by_name(u, place.function) : NULL;
    if (!f && !*place.function)
        f = unit_facts_by_name(u, mt_name(home)); /* the CPU module's functions are copies */
    if (f && f->trace)
        return 1;
    if (f && f->skip)
        return 0;
    for (unsigned i = 0; i < u->options->noff; i++) {
        const struct mt_off_range *r = &u->options->off[i];
        if (place.line >= r->first && place.line <= r->last && same_file(r->file, place.file))
            return 0;
    }
    return 1;
}

struct tracer {
    struct mt_unit *u;
    LLVMBuilderRef builder;
    LLVMTypeRef ptr, i32, i64, fixed_type, block_type, note_type;
};

static LLVMValueRef record_function(struct tracer *t, const char *name, LLVMTypeRef type)
{
    return mt_declare(t->u->module, name, type);
}

static int instrument_wants(const struct tracer *t, enum mt_access_type op)
{
    return !t->u->options->only || t->u->options->only >> op & 1;
}

static LLVMValueRef as_pointer(struct tracer *t, const struct mt_access *a)
{
    LLVMValueRef p = a->pointer;
    LLVMTypeRef type = LLVMTypeOf(p);
    unsigned as = a->space == MT_SPACE_SHARED ? 3 : 0; /* an address of asm is a number */
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind) {
        p = LLVMBuildIntToPtr(t->builder, LLVMBuildZExtOrBitCast(t->builder, p, t->i64, ""),
                              LLVMPointerTypeInContext(t->u->context, as), "");
        type = LLVMTypeOf(p);
    }
    if (LLVMGetPointerAddressSpace(type))
        p = LLVMBuildAddrSpaceCast(t->builder, p, t->ptr, "");
    if (a->offset) {
        LLVMValueRef offset = LLVMConstInt(t->i64, (uint64_t)a->offset, 1);
        p = LLVMBuildGEP2(t->builder, mt_type_int(t->u, 8), p, &offset, 1, "");
    }
    return p;
}

/* Returns an access's alignment. (llvm-c has 32 bits for it, and LLVM gives the null pointer 2^32.) */
static uint32_t instrument_alignment(LLVMValueRef access)
{
    uint32_t align = LLVMGetAlignment(access);
    return align ? align : 1u << 31;
}

/* Returns the alignment without which the access faults on a GPU: that of the code, as far as one
 * instruction of the size needs it. The back end splits code with less. 0: unknown (inline asm, blocks). */
static uint32_t needed_alignment(LLVMValueRef inst, uint32_t size)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    if (op != LLVMLoad && op != LLVMStore && op != LLVMAtomicRMW && op != LLVMAtomicCmpXchg)
        return 0;
    uint32_t align = instrument_alignment(inst), natural = size & -size;
    align = align < natural ? align : natural;
    return align < 16 ? align : 16;
}

/* Returns an i32, not 0 if the lane is one of the first `lanes`. */
static LLVMValueRef instrument_is_lane(struct tracer *t, unsigned lanes)
{
    static const char name[] = "llvm.nvvm.read.ptx.sreg.laneid";
    LLVMValueRef f =
        LLVMGetIntrinsicDeclaration(t->u->module, LLVMLookupIntrinsicID(name, sizeof name - 1), NULL, 0);
    LLVMValueRef lane = LLVMBuildCall2(t->builder, LLVMGlobalGetValueType(f), f, NULL, 0, "");
    LLVMValueRef is = LLVMBuildICmp(t->builder, LLVMIntULT, lane, LLVMConstInt(t->i32, lanes, 0), "");
    return LLVMBuildZExt(t->builder, is, t->i32, "");
}

/* Notes the variable of the access at its site. Returns the function's own variable on the stack that the
 * address is computed from, or NULL; a record of another one has no offset to compare. */
static LLVMValueRef instrument_object(struct mt_unit *u, LLVMValueRef inst, const struct mt_access *a,
                                      struct mt_site *site)
{
    uint32_t object = mt_unit_object_of(u, a->pointer);
    LLVMValueRef base = object ? u->objects[object - 1].base : mt_base_of(a->pointer);
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst));
    int local = LLVMIsAAllocaInst(base) != NULL,
        own = local && a->space == MT_SPACE_LOCAL &&
              LLVMGetBasicBlockParent(LLVMGetInstructionParent(base)) == function;
    site->object = local && !own ? 0 : object;
    return own ? base : NULL;
}

static void instrument_record(struct tracer *t, LLVMValueRef inst, const struct mt_access *a)
{
    struct mt_unit *u = t->u;
    uint32_t size = a->size;
    LLVMValueRef bytes = a->bytes;
    if (bytes && LLVMIsAConstantInt(bytes) && LLVMConstIntGetZExtValue(bytes) <= MT_RAW_MAX_SIZE) {
        size = (uint32_t)LLVMConstIntGetZExtValue(bytes);
        if (!size)
            return;
        bytes = NULL;
    }
    LLVMValueRef condition = a->lanes ? instrument_is_lane(t, a->lanes) : a->only_if;
    if (condition && LLVMIsAConstantInt(condition)) {
        if (!LLVMConstIntGetZExtValue(condition) == !a->only_if_not)
            return;
        condition = NULL;
    }
    if (condition) { /* a block of no bytes has no record */
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(condition));
        LLVMValueRef happens =
            LLVMBuildICmp(t->builder, a->only_if_not ? LLVMIntEQ : LLVMIntNE, condition, zero, "");
        LLVMValueRef whole =
            bytes ? LLVMBuildIntCast2(t->builder, bytes, t->i64, 0, "") : LLVMConstInt(t->i64, size, 0);
        bytes = LLVMBuildSelect(t->builder, happens, whole, LLVMConstNull(t->i64), "");
    }
    char name[64];
    const char *word = a->global_only ? "generic" : space_word(u, a->space);
    uint32_t type = a->global_only ? a->op : space_type(u, a),
             shown = a->space == MT_SPACE_GENERIC ? a->op : type;
    uint32_t site = mt_unit_add_site(u, inst, shown, bytes ? 0 : size,
                                     bytes ? 0 : needed_alignment(inst, size), variable_of(a->pointer));
    LLVMValueRef pointer = as_pointer(t, a), array = instrument_object(u, inst, a, &u->sites[site]);
    if (a->space == MT_SPACE_LOCAL)
        pointer = local_number(u, t->builder, pointer, array);
    LLVMValueRef id = LLVMConstInt(t->i32, site, 0);
    if (bytes) {
        LLVMValueRef args[] = {pointer, LLVMBuildIntCast2(t->builder, bytes, t->i64, 0, ""),
                               LLVMConstInt(t->i32, type, 0), id};
        snprintf(name, sizeof name, "__mt_access_%s_n", word);
        LLVMBuildCall2(t->builder, t->block_type, record_function(t, name, t->block_type), args, 4, "");
    } else {
        LLVMValueRef args[] = {pointer, LLVMConstInt(t->i32, mt_rec_meta(type, size), 0), id};
        snprintf(name, sizeof name, "__mt_access_%s", word);
        LLVMBuildCall2(t->builder, t->fixed_type, record_function(t, name, t->fixed_type), args, 3, "");
    }
}

/* Returns an object's address with MT_MBARRIER_… in its lower bits. *name: name of the record function. */
static LLVMValueRef instrument_sync_object(struct tracer *t, const struct mt_sync *s, const char **name)
{
    struct mt_access at = {.pointer = s->what, .offset = s->offset, .space = MT_SPACE_SHARED};
    LLVMValueRef flags = NULL, p;
    *name = s->init || s->parity ? "__mt_access_mbarrier" : "__mt_access_phase";
    if (s->init)
        flags = LLVMConstInt(t->i64, MT_MBARRIER_INIT, 0);
    else if (s->parity)
        flags = LLVMBuildAnd(t->builder, LLVMBuildIntCast2(t->builder, s->parity, t->i64, 0, ""),
                             LLVMConstInt(t->i64, MT_MBARRIER_ODD, 0), "");
    p = as_pointer(t, &at);
    return flags ? LLVMBuildGEP2(t->builder, mt_type_int(t->u, 8), p, &flags, 1, "") : p;
}

/* Returns an i64: `size` if the wait is over, else 0. */
static LLVMValueRef sync_size(struct tracer *t, const struct mt_sync *s, LLVMValueRef inst)
{
    LLVMValueRef over = inst;
    if (LLVMGetTypeKind(LLVMTypeOf(inst)) == LLVMStructTypeKind)
        over = LLVMBuildExtractValue(t->builder, inst, (unsigned)s->output, "");
    over = LLVMBuildICmp(t->builder, LLVMIntNE, over, LLVMConstNull(LLVMTypeOf(over)), "");
    return LLVMBuildSelect(t->builder, over, LLVMConstInt(t->i64, s->size, 0), LLVMConstNull(t->i64), "");
}

static void instrument_sync(struct tracer *t, LLVMValueRef inst)
{
    struct mt_sync s;
    const char *name = "__mt_access_number";
    char sized[64];
    LLVMValueRef what;
    if (!sync_of(t->u, inst, &s))
        return;
    int after = s.object && s.kind == MT_SYNC_BARRIER;
    LLVMPositionBuilderBefore(t->builder, after ? LLVMGetNextInstruction(inst) : inst);
    LLVMSetCurrentDebugLocation2(t->builder, LLVMInstructionGetDebugLoc(inst));
    LLVMValueRef site = LLVMConstInt(t->i32, mt_unit_add_site(t->u, inst, s.kind, s.size, 0, NULL), 0);
    if (s.object)
        what = instrument_sync_object(t, &s, &name);
    else
        what =
            LLVMBuildIntToPtr(t->builder, LLVMBuildIntCast2(t->builder, s.what, t->i64, 0, ""), t->ptr, "");
    if (s.output < 0) {
        LLVMValueRef args[] = {what, LLVMConstInt(t->i32, mt_rec_meta(s.kind, s.size), 0), site};
        LLVMBuildCall2(t->builder, t->fixed_type, record_function(t, name, t->fixed_type), args, 3, "");
        return;
    }
    LLVMValueRef args[] = {what, sync_size(t, &s, inst), LLVMConstInt(t->i32, s.kind, 0), site};
    snprintf(sized, sizeof sized, "%s_n", name);
    LLVMBuildCall2(t->builder, t->block_type, record_function(t, sized, t->block_type), args, 4, "");
}

static void instrument_untraced(struct tracer *t, LLVMValueRef inst, const char *what)
{
    mt_diag(t->u, inst, MT_DIAG_WARNING, "%s memory access without a record (counted at run time): %s",
            t->u->options->spaces ? "global or shared" : "global", what);
    LLVMValueRef id = LLVMConstInt(t->i32, mt_unit_add_note(t->u, inst, MT_NOTE_UNTRACED, what), 0);
    LLVMBuildCall2(t->builder, t->note_type, record_function(t, "__mt_untraced", t->note_type), &id, 1, "");
}

/* ---- matrices of a warp, tensor copies ---- */

static int instrument_record_warp(struct tracer *t, LLVMValueRef inst)
{
    struct mt_asm_warp_access x;
    if (!LLVMIsACallInst(inst) || !LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) ||
        mt_asm_warp_access(t->u->module, t->builder, inst, &x))
        return 0;
    struct mt_access access = {.op = x.op,
                               .pointer = x.address,
                               .size = x.size,
                               .space = x.generic ? mt_space_of(t->u, x.address) : MT_SPACE_GLOBAL};
    if (x.rank)
        record_tensor(t->u, t->builder, inst, &x);
    else if (instrument_wants(t, x.op) && space_is_recorded(t->u, access.space))
        instrument_record(t, inst, &access);
    return 1;
}

/* ---- structs passed in memory ---- */

struct passed {
    struct tracer *t;
    LLVMValueRef call;
    struct mt_access access;
};

static void passed_part(void *ctx, uint64_t offset, uint32_t size)
{
    struct passed *p = ctx;
    p->access.offset = (int64_t)offset;
    p->access.size = size;
    instrument_record(p->t, p->call, &p->access);
}

/* Returns 1 for a struct passed twice, which is loaded once. */
static int instrument_is_passed_again(LLVMValueRef call, unsigned param, LLVMTypeRef type)
{
    for (unsigned i = 0; i < param; i++)
        if (LLVMGetOperand(call, i) == LLVMGetOperand(call, param) && mt_shim_byval_type(call, i) == type)
            return 1;
    return 0;
}

static void record_arguments(struct tracer *t, LLVMValueRef inst)
{
    unsigned n = LLVMIsACallInst(inst) ? LLVMGetNumArgOperands(inst) : 0;
    for (unsigned i = 0; i < n; i++) {
        LLVMTypeRef type = mt_shim_byval_type(inst, i);
        LLVMValueRef pointer = LLVMGetOperand(inst, i);
        struct passed p = {t, inst, {.op = MT_LOAD, .pointer = pointer}};
        if (!type || instrument_is_passed_again(inst, i, type) || !instrument_wants(t, MT_LOAD))
            continue;
        p.access.space = mt_space_of(t->u, pointer);
        if (space_is_recorded(t->u, p.access.space))
            mt_argument_parts(t->u, type, mt_shim_param_align(inst, i), 0, passed_part, &p);
    }
}

/* Records the shared memory accesses of inline asm. */
static void instrument_asm_shared(struct tracer *t, LLVMValueRef inst)
{
    struct mt_access access[MT_MAX_ACCESSES];
    if (!(t->u->options->spaces & MT_SPACES_SHARED) || !LLVMIsACallInst(inst) ||
        !LLVMIsAInlineAsm(LLVMGetCalledValue(inst)))
        return;
    int n = shared_accesses_of_asm(t->u, inst, access);
    if (n < 0)
        instrument_untraced(t, inst, "inline asm on shared memory");
    for (int i = 0; i < n; i++)
        if (instrument_wants(t, access[i].op))
            instrument_record(t, inst, &access[i]);
}

static void instrument_function(struct tracer *t, LLVMValueRef function)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        struct mt_access access[MT_MAX_ACCESSES];
        const char *what = "";
        int count = access_of(t->u, list[i], access, &what);
        if ((!count && !LLVMIsACallInst(list[i])) || !mt_unit_wanted(t->u, list[i]))
            continue;
        LLVMPositionBuilderBefore(t->builder, list[i]);
        LLVMSetCurrentDebugLocation2(t->builder, LLVMInstructionGetDebugLoc(list[i]));
        record_arguments(t, list[i]);
        for (int j = 0; j < count; j++)
            if (instrument_wants(t, access[j].op))
                instrument_record(t, list[i], &access[j]);
        instrument_sync(t, list[i]); /* the next site is the one of a copy's access to shared memory */
        LLVMPositionBuilderBefore(t->builder, list[i]);
        if (count < 0 && !instrument_record_warp(t, list[i]))
            instrument_untraced(t, list[i], what);
        instrument_asm_shared(t, list[i]);
    }
    free(list);
}

/* Moves attributes, linkage and body, but not the parameters; the old function becomes a declaration. */
static void move_function(LLVMValueRef new, LLVMValueRef old)
{
    mt_shim_copy_attributes(new, old);
    LLVMSetLinkage(new, LLVMGetLinkage(old));
    LLVMSetSubprogram(new, LLVMGetSubprogram(old));
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(old), next; b; b = next) {
        next = LLVMGetNextBasicBlock(b);
        LLVMRemoveBasicBlockFromParent(b);
        LLVMAppendExistingBasicBlock(new, b);
    }
}

LLVMValueRef mt_add_widened(struct mt_unit *u, LLVMValueRef old, const char *name)
{
    unsigned n = LLVMCountParams(old);
    LLVMTypeRef type = LLVMGlobalGetValueType(old), *params = malloc((n + 1) * sizeof *params);
    if (!params)
        return NULL;
    LLVMGetParamTypes(type, params);
    params[n] = mt_type_ptr(u);
    LLVMTypeRef wider = LLVMFunctionType(LLVMGetReturnType(type), params, n + 1, LLVMIsFunctionVarArg(type));
    free(params);
    LLVMValueRef new = LLVMAddFunction(u->module, name, wider);
    move_function(new, old);
    LLVMValueRef to = LLVMGetFirstParam(new);
    for (LLVMValueRef from = LLVMGetFirstParam(old); from; from = LLVMGetNextParam(from)) {
        size_t length;
        const char *text = LLVMGetValueName2(from, &length);
        LLVMSetValueName2(to, text, length);
        LLVMReplaceAllUsesWith(from, to);
        to = LLVMGetNextParam(to);
    }
    LLVMSetValueName2(LLVMGetLastParam(new), "memtrace.ctx", 12);
    return new;
}

/* Metadata that names the kernel follows. */
static void add_hidden_parameter(struct mt_unit *u, struct mt_kernel *k)
{
    LLVMValueRef old = k->function, new = mt_add_widened(u, old, "");
    if (!new)
        return;
    LLVMReplaceAllUsesWith(old, new);
    for (unsigned i = 0; i < u->nfacts; i++)
        if (u->facts[i].function == old)
            u->facts[i].function = new;
    /* NVPTX remembers kernels by address: another function at this address would be one. */
    mt_shim_detach_function(old);
    LLVMSetValueName2(new, k->name, strlen(k->name));
    k->function = new;
}

/* Removes attributes of functions that record, and thus write memory, whatever LLVM had found out about
 * them and their calls: otherwise two calls of a pure helper could still be merged after this pass. */
void mt_forget_purity(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n;
        if (LLVMIsDeclaration(f))
            continue;
        mt_shim_make_impure(f);
        LLVMValueRef *list = mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            if (!LLVMIsACallInst(list[i]) || LLVMIsAInlineAsm(LLVMGetCalledValue(list[i])))
                continue;
            LLVMValueRef callee = mt_callee(list[i]);
            if (!callee || !LLVMIsDeclaration(callee))
                mt_shim_make_impure(list[i]);
        }
        free(list);
    }
}

static int small_and_accessing(struct mt_unit *u, LLVMValueRef f)
{
    unsigned n;
    int accesses = 0;
    const char *what;
    struct mt_access access[MT_MAX_ACCESSES];
    LLVMValueRef *list = mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n && !accesses; i++)
        accesses = access_of(u, list[i], access, &what) != 0;
    free(list);
    return accesses && n <= 200;
}

static int inline_calls_of(LLVMValueRef f)
{
    int done = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(f), next; use; use = next) {
        next = LLVMGetNextUse(use);
        LLVMValueRef call = LLVMIsACallInst(LLVMGetUser(use));
        if (call && LLVMGetCalledValue(call) == f && LLVMInstructionGetDebugLoc(call) &&
            LLVMGetBasicBlockParent(LLVMGetInstructionParent(call)) != f)
            done += mt_shim_inline(call);
    }
    return done;
}

/* Inlines wrappers: in unoptimised code atomicAdd and the like are functions of the toolchain's headers,
 * some calling others; inlined here, their accesses get the location of the user's call. */
static void inline_wrappers(struct mt_unit *u)
{
    for (int round = 0, changed = 1; changed && round < 8; round++) {
        changed = 0;
        for (LLVMValueRef f = LLVMGetFirstFunction(u->module), next; f; f = next) {
            next = LLVMGetNextFunction(f);
            if (LLVMIsDeclaration(f) || !mt_shim_from_toolchain(f) || !small_and_accessing(u, f))
                continue;
            changed += inline_calls_of(f);
            if (!LLVMGetFirstUse(f) && LLVMGetLinkage(f) == LLVMInternalLinkage)
                LLVMDeleteFunction(f);
        }
    }
}

void mt_unit_instrument(struct mt_unit *u)
{
    struct tracer t = {.u = u, .builder = LLVMCreateBuilderInContext(u->context), .ptr = mt_type_ptr(u)};
    t.i32 = mt_type_int(u, 32);
    t.i64 = mt_type_int(u, 64);
    LLVMTypeRef none = LLVMVoidTypeInContext(u->context);
    t.fixed_type = LLVMFunctionType(none, (LLVMTypeRef[]){t.ptr, t.i32, t.i32}, 3, 0);
    t.block_type = LLVMFunctionType(none, (LLVMTypeRef[]){t.ptr, t.i64, t.i32, t.i32}, 4, 0);
    t.note_type = LLVMFunctionType(none, (LLVMTypeRef[]){t.i32}, 1, 0);
    inline_wrappers(u);
    mt_unit_add_shared(u);
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        struct mt_kernel *k = mt_unit_kernel(u, f);
        if (!LLVMIsDeclaration(f) && (!k || k->traced) && u->options->only != MT_ONLY_NOTHING)
            instrument_function(&t, f);
    }
    LLVMDisposeBuilder(t.builder);
    mt_forget_purity(u->module);
    for (unsigned i = 0; i < u->nkernels; i++)
        add_hidden_parameter(u, &u->kernels[i]);
}

int mt_unit_architecture(LLVMValueRef function)
{
    unsigned n;
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(function, LLVMAttributeFunctionIndex, "target-cpu",
                                                       strlen("target-cpu"));
    const char *cpu = a ? LLVMGetStringAttributeValue(a, &n) : "";
    return mt_starts(cpu, "sm_") ? atoi(cpu + strlen("sm_")) : 0;
}
