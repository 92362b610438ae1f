/* Variables of modules and their initialisers: numbers, addresses of variables and functions, single bytes
 * of these. */
#include "module_parts.h"
#include "unit/options.h"
#include <stdlib.h>
#include <string.h>

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
        mt_ptx_annotate(x, v->value, "managed", 1);
        LLVMSetSection(v->value, MT_MANAGED_SECTION); /* lower/managed.c */
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

int mt_ptx_initialise_all(struct mt_ptx *x)
{
    int failed = 0;
    if (x->source->part == MT_PTX_KERNEL)
        x->pending = NULL;
    x->pending_end = &x->pending;
    for (; x->pending; x->pending = x->pending->next)
        if (variable_initialise(x, x->pending)) {
            mt_ptx_tell(x);
            failed = -1;
        }
    return failed;
}
