/* Parser of PTX inline assembly in LLVM IR: blocks, declarations, labels, statements. One pass over the
 * text by recursive descent; all results live in the arena of the struct mt_asm. asm_operand.c reads
 * operands. */
#include "asm_parser.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- statements --------------------------------------------------------------------------------- */

static uint32_t asm_parse_hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

const struct mt_asm_reg *mt_parse_find_reg(const struct mt_parser *p, const char *name)
{
    uint32_t hash = asm_parse_hash(name);
    for (uint32_t i = p->nbuckets ? p->buckets[hash % p->nbuckets] : 0; i; i = p->a->regs[i - 1].hidden)
        if (p->a->regs[i - 1].hash == hash && !strcmp(p->a->regs[i - 1].name, name))
            return &p->a->regs[i - 1];
    return NULL;
}

static void asm_parse_show(struct mt_parser *p, unsigned index)
{
    struct mt_asm_reg *r = &p->a->regs[index];
    uint32_t *bucket = &p->buckets[r->hash % p->nbuckets];
    r->hidden = *bucket;
    *bucket = index + 1;
}

/* Hides the registers of the inner block. */
static void asm_parse_leave(struct mt_parser *p, unsigned outer)
{
    while (p->nvisible > outer) {
        const struct mt_asm_reg *r = &p->a->regs[p->visible[--p->nvisible]];
        p->buckets[r->hash % p->nbuckets] = r->hidden;
    }
}

static unsigned asm_parse_limit(const struct mt_parser *p)
{
    return p->directive ? MT_PARSE_MODULE_REGS : MT_PARSE_REGS;
}

static int asm_parse_more_buckets(struct mt_parser *p)
{
    unsigned n = p->nbuckets ? 4 * p->nbuckets : 64;
    uint32_t *buckets = mt_parse_alloc(p, n * sizeof *buckets);
    if (!buckets)
        return mt_parse_no_memory(p);
    p->buckets = buckets;
    p->nbuckets = n;
    for (unsigned i = 0; i < p->nvisible; i++)
        asm_parse_show(p, p->visible[i]);
    return 0;
}

int mt_parse_add_reg(struct mt_parser *p, const struct mt_asm_reg *reg)
{
    struct mt_asm *a = p->a;
    if (a->nregs >= asm_parse_limit(p))
        return mt_parse_fail(p, "too many registers");
    a->regs = mt_parse_grow(p, a->regs, a->nregs, &p->regs_cap, sizeof *a->regs);
    p->visible = mt_parse_grow(p, p->visible, p->nvisible, &p->visible_cap, sizeof *p->visible);
    if (!a->regs || !p->visible || (p->nvisible >= p->nbuckets && asm_parse_more_buckets(p)))
        return -1;
    a->regs[a->nregs] = *reg;
    a->regs[a->nregs].hash = asm_parse_hash(reg->name);
    asm_parse_show(p, a->nregs);
    p->visible[p->nvisible++] = a->nregs;
    return (int)a->nregs++;
}

static int add_reg(struct mt_parser *p, const char *text, char type, unsigned bits)
{
    struct mt_asm_reg reg = {.name = text, .type = type, .bits = bits};
    return mt_parse_add_reg(p, &reg) < 0 ? -1 : 0;
}

/* h<4>: h0, h1, h2, h3 */
static int add_range(struct mt_parser *p, const char *stem, char type, unsigned bits)
{
    struct mt_asm_operand count = {0};
    mt_parse_space(p);
    if (mt_parse_number(p, &count) || mt_parse_expect(p, '>'))
        return -1;
    if (count.bits < 1ull << 40 && mt_parse_ask(p, count.bits * MT_PARSE_REG_BYTES, stem))
        return -1;
    if (count.kind != MT_ASM_INT || count.bits > asm_parse_limit(p))
        return mt_parse_fail(p, "too many registers");
    for (unsigned i = 0; i < count.bits; i++) {
        size_t n = strlen(stem) + 12;
        char *text = mt_parse_alloc(p, n);
        if (!text)
            return mt_parse_no_memory(p);
        snprintf(text, n, "%s%u", stem, i);
        if (add_reg(p, text, type, bits))
            return -1;
    }
    return 0;
}

/* Reads names after ".reg" and its type. `type` is the suffix (".reg.b32"), or NULL. */
static int asm_parse_declaration(struct mt_parser *p, const char *type)
{
    unsigned bits = 0;
    if (!type) {
        mt_parse_space(p);
        if (!(type = mt_parse_name(p, 1)))
            return -1;
    }
    if (*type == '.')
        type++;
    if (!strcmp(type, "pred"))
        bits = 1;
    else if (strchr("bsuf", *type) && isdigit((unsigned char)type[1]))
        bits = !strcmp(type + 1, "16x2") ? 32 : (unsigned)atoi(type + 1);
    if (bits != 1 && bits != 8 && bits != 16 && bits != 32 && bits != 64 && bits != 128)
        return mt_parse_fail(p, "register type .%.20s is not supported", type);
    do {
        mt_parse_space(p);
        const char *text = mt_parse_name(p, 0);
        if (!text ||
            (mt_parse_accept(p, '<') ? add_range(p, text, *type, bits) : add_reg(p, text, *type, bits)))
            return -1;
    } while (mt_parse_accept(p, ','));
    return mt_parse_accept(p, ';') || p->at == p->end ? 0 : mt_parse_expect(p, ';');
}

static int asm_parse_directive(struct mt_parser *p, const char *word)
{
    int known = p->directive ? p->directive(p, word) : 0;
    if (known)
        return known < 0 ? -1 : 0;
    if (!strcmp(word, ".reg"))
        return asm_parse_declaration(p, NULL);
    if (!strncmp(word, ".reg.", 5))
        return asm_parse_declaration(p, word + 4);
    if (strcmp(word, ".pragma"))
        return mt_parse_fail(p, "directive %.40s is not supported", word);
    while (p->at < p->end && *p->at != ';')
        p->at++;
    return mt_parse_accept(p, ';') ? 0 : 0;
}

static int asm_parse_split(struct mt_parser *p, struct mt_asm_statement *s)
{
    size_t n = strlen(s->opcode) + 1;
    char *copy = mt_parse_alloc(p, n);
    if (!copy)
        return mt_parse_no_memory(p);
    memcpy(copy, s->opcode, n);
    for (char *at = copy;;) {
        char *dot = strchr(at, '.');
        if (s->nparts == MT_ASM_MAX_PARTS)
            return mt_parse_fail(p, "too many modifiers in %.40s", s->opcode);
        s->parts[s->nparts++] = at;
        if (!dot)
            return 0;
        *dot = 0;
        at = dot + 1;
    }
}

static struct mt_asm_statement *add_statement(struct mt_parser *p)
{
    struct mt_asm *a = p->a;
    a->statements =
        mt_parse_grow(p, a->statements, a->nstatements, &p->statements_cap, sizeof *a->statements);
    if (!a->statements)
        return NULL;
    struct mt_asm_statement *s = &a->statements[a->nstatements];
    memset(s, 0, sizeof *s);
    s->offset = (size_t)(p->at - p->text);
    s->scope = p->scope;
    return s;
}

static int asm_parse_instruction(struct mt_parser *p)
{
    struct mt_asm_statement *s = add_statement(p);
    struct mt_asm_operand all = {0};
    if (!s)
        return -1;
    if (mt_parse_accept(p, '@')) {
        s->predicate = mt_parse_alloc(p, sizeof *s->predicate);
        if (!s->predicate)
            return mt_parse_no_memory(p);
        if (mt_parse_operand(p, s->predicate))
            return -1;
        mt_parse_space(p);
    }
    const char *word = mt_parse_name(p, 1);
    if (!word)
        return -1;
    if (*word == '.' && !s->predicate)
        return asm_parse_directive(p, word);
    mt_parse_space(p);
    if (mt_parse_peek(p, 0) == ':' && !s->predicate) {
        p->at++;
        s->label = word;
        p->a->nstatements++;
        return 0;
    }
    s->opcode = word;
    if (asm_parse_split(p, s))
        return -1;
    p->calls = !strcmp(s->parts[0], "call");
    mt_parse_space(p);
    if (p->at < p->end && mt_parse_peek(p, 0) != ';' && mt_parse_peek(p, 0) != '}') {
        unsigned cap = 0;
        do {
            all.items = mt_parse_grow(p, all.items, all.nitems, &cap, sizeof *all.items);
            if (!all.items)
                return -1;
            memset(&all.items[all.nitems], 0, sizeof *all.items);
            if (mt_parse_operand(p, &all.items[all.nitems]))
                return -1;
            all.nitems++;
        } while (mt_parse_accept(p, ','));
    }
    s->operands = all.items;
    s->noperands = all.nitems;
    p->a->nstatements++;
    mt_parse_space(p);
    return p->at == p->end || mt_parse_peek(p, 0) == '}' ? 0 : mt_parse_expect(p, ';');
}

static int asm_parse_open_scope(struct mt_parser *p)
{
    struct mt_asm *a = p->a;
    if (++p->depth > MT_PARSE_DEPTH)
        return mt_parse_fail(p, "nested too deep");
    a->scopes = mt_parse_grow(p, a->scopes, a->nscopes, &p->scopes_cap, sizeof *a->scopes);
    if (!a->scopes)
        return -1;
    a->scopes[a->nscopes] = p->scope;
    p->scope = a->nscopes++;
    return 0;
}

int mt_parse_body(struct mt_parser *p, int inner)
{
    unsigned outer = p->nvisible;
    if (asm_parse_open_scope(p))
        return -1;
    for (;;) {
        if (mt_parse_accept(p, ';'))
            continue;
        if (p->at == p->end) {
            if (inner)
                return mt_parse_fail(p, "'}' missing at the end");
            return 0;
        }
        if (mt_parse_accept(p, '{')) {
            if (mt_parse_body(p, 1))
                return -1;
        } else if (mt_parse_accept(p, '}')) {
            if (!inner)
                return mt_parse_fail(p, "'}' without '{'");
            asm_parse_leave(p, outer);
            p->scope = p->a->scopes[p->scope];
            p->depth--;
            return 0;
        } else if (asm_parse_instruction(p)) {
            return -1;
        }
    }
}

struct mt_asm *mt_asm_parse(const char *text, size_t length, struct mt_asm_error *error)
{
    struct mt_parser p = {.error = error, .a = calloc(1, sizeof *p.a)};
    *error = (struct mt_asm_error){0};
    char *copy = p.a ? mt_parse_alloc(&p, length + 1) : NULL; /* terminated by NUL, unlike the caller's */
    if (!copy) {
        mt_parse_no_memory(&p);
        mt_asm_free(p.a);
        return NULL;
    }
    memcpy(copy, text, length);
    p.text = p.at = copy;
    p.end = copy + length;
    if (!mt_parse_body(&p, 0) && !p.failed)
        return p.a;
    mt_asm_free(p.a);
    return NULL;
}

void mt_asm_free(struct mt_asm *a)
{
    if (!a)
        return;
    for (struct mt_asm_chunk *c = a->arena, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

int mt_asm_has(const struct mt_asm_statement *s, const char *modifier)
{
    for (unsigned i = 1; i < s->nparts; i++)
        if (!strcmp(s->parts[i], modifier))
            return 1;
    return 0;
}
