/* Lexer and operands of PTX inline assembly: $n and ${n}, registers, special registers,
 * numbers, vectors, memory. */
#include "asm_parser.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 16384 /* bytes of an identifier or opcode */
#define CHUNK 4000
#define MAX_CHUNK (1u << 20)

void *mt_parse_alloc(struct mt_parser *p, size_t size)
{
    struct mt_asm_chunk *c = p->a->arena;
    size = (size + 15) & ~(size_t)15;
    if (!c || c->size - c->used < size) {
        size_t usual = !c ? CHUNK : 2 * c->size < MAX_CHUNK ? 2 * c->size : MAX_CHUNK;
        size_t room = size > usual ? size : usual;
        c = calloc(1, sizeof *c + room);
        if (!c)
            return NULL;
        c->size = room;
        c->next = p->a->arena;
        p->a->arena = c;
    }
    void *at = c->bytes + c->used;
    c->used += size;
    return at;
}

int mt_parse_fail(struct mt_parser *p, const char *format, ...)
{
    va_list list;
    if (p->failed)
        return -1;
    p->failed = 1;
    va_start(list, format);
    vsnprintf(p->error->message, sizeof p->error->message, format, list);
    va_end(list);
    p->error->offset = (size_t)(p->at - p->text);
    return -1;
}

int mt_parse_ask(struct mt_parser *p, uint64_t bytes, const char *name)
{
    struct mt_parse_room *r = p->room;
    uint64_t all = r ? r->asked + bytes : 0;
    if (!r || (all >= bytes && (all <= r->by_text || all - r->by_text <= r->limit))) {
        if (r)
            r->asked = all;
        return 0;
    }
    return mt_parse_fail(p, "%.40s asks for %llu bytes that its text does not have; --limit=%lluM lets it",
                         name, (unsigned long long)bytes,
                         (unsigned long long)(((all - r->by_text) >> 20) + 1));
}

int mt_parse_no_memory(struct mt_parser *p)
{
    return mt_parse_fail(p, "out of memory");
}

void *mt_parse_grow(struct mt_parser *p, void *array, unsigned count, unsigned *cap, size_t size)
{
    if (count < *cap)
        return array;
    unsigned more = *cap ? *cap * 2 : 8;
    void *bigger = mt_parse_alloc(p, more * size);
    if (!bigger) {
        mt_parse_no_memory(p);
        return NULL;
    }
    if (count)
        memcpy(bigger, array, count * size);
    *cap = more;
    return bigger;
}

/* ---- characters --------------------------------------------------------------------------------- */

int mt_parse_peek(const struct mt_parser *p, size_t i)
{
    return (size_t)(p->end - p->at) > i ? (unsigned char)p->at[i] : 0;
}

void mt_parse_space(struct mt_parser *p)
{
    while (p->at < p->end) {
        if (isspace(mt_parse_peek(p, 0)) || !mt_parse_peek(p, 0)) {
            p->at++;
        } else if (mt_parse_peek(p, 0) == '/' && mt_parse_peek(p, 1) == '/') {
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        } else if (mt_parse_peek(p, 0) == '/' && mt_parse_peek(p, 1) == '*') {
            for (p->at += 2; p->at < p->end && !(mt_parse_peek(p, 0) == '*' && mt_parse_peek(p, 1) == '/');)
                p->at++;
            p->at = p->end - p->at < 2 ? p->end : p->at + 2;
        } else {
            return;
        }
    }
}

int mt_parse_accept(struct mt_parser *p, char c)
{
    mt_parse_space(p);
    if (mt_parse_peek(p, 0) != (unsigned char)c)
        return 0;
    p->at++;
    return 1;
}

int mt_parse_expect(struct mt_parser *p, char c)
{
    if (mt_parse_accept(p, c))
        return 0;
    if (p->at == p->end)
        return mt_parse_fail(p, "'%c' expected at the end", c);
    return mt_parse_fail(p, "'%c' expected before '%.12s'", c, p->at);
}

/* Returns the length of a piece of an identifier at the cursor, or 0. "$$" and "${:uid}" belong to names. */
static size_t name_piece(const struct mt_parser *p, int opcode)
{
    int c = mt_parse_peek(p, 0);
    if (isalnum(c) || c == '_' || (opcode && c == '.') || (p->directive && c == '$'))
        return 1;
    if (opcode && c == ':' && mt_parse_peek(p, 1) == ':')
        return 2;
    if (c == '$' && mt_parse_peek(p, 1) == '$')
        return 2;
    if (c == '$' && mt_parse_peek(p, 1) == '{' && mt_parse_peek(p, 2) == ':') {
        size_t n = 3;
        while (isalpha(mt_parse_peek(p, n)))
            n++;
        return mt_parse_peek(p, n) == '}' ? n + 1 : 0;
    }
    return 0;
}

/* Reads an identifier (or an opcode) into the arena, with "$$" as "$" and "${:uid}" as "uid". */
const char *mt_parse_name(struct mt_parser *p, int opcode)
{
    char text[MAX_NAME];
    size_t n = 0, piece;
    if (mt_parse_peek(p, 0) == '%') {
        text[n++] = '%';
        p->at++;
    }
    while ((piece = name_piece(p, opcode)) > 0) {
        const char *from = p->at;
        size_t length = piece;
        if (*from == '$' && piece == 2) {
            length = 1;
        } else if (*from == '$' && piece > 2) {
            from += 3;
            length = piece - 4;
        }
        if (n + length >= sizeof text) {
            mt_parse_fail(p, "name too long");
            return NULL;
        }
        memcpy(text + n, from, length);
        n += length;
        p->at += piece;
    }
    if (!n) {
        mt_parse_fail(p, "name expected before '%.12s'", p->at < p->end ? p->at : "");
        return NULL;
    }
    char *copy = mt_parse_alloc(p, n + 1);
    if (!copy) {
        mt_parse_no_memory(p);
        return NULL;
    }
    memcpy(copy, text, n);
    return copy;
}

/* ---- operands ----------------------------------------------------------------------------------- */

/* $n, ${n}, ${n:modifier} */
static int asm_operand_argument(struct mt_parser *p, struct mt_asm_operand *o)
{
    unsigned n = 0;
    int braces;
    p->at++;
    braces = mt_parse_peek(p, 0) == '{';
    p->at += braces;
    if (!isdigit(mt_parse_peek(p, 0)))
        return mt_parse_fail(p, "operand number expected after '$'");
    while (isdigit(mt_parse_peek(p, 0)) && n < 10000)
        n = n * 10 + (unsigned)(*p->at++ - '0');
    if (braces) {
        while (p->at < p->end && *p->at != '}')
            p->at++;
        if (mt_parse_peek(p, 0) != '}')
            return mt_parse_fail(p, "'}' expected after the operand number");
        p->at++;
    }
    o->kind = MT_ASM_ARG;
    o->index = n;
    return 0;
}

static int hex_float(struct mt_parser *p, struct mt_asm_operand *o, unsigned digits)
{
    uint64_t bits = 0;
    p->at += 2;
    for (unsigned i = 0; i < digits; i++, p->at++) {
        int c = mt_parse_peek(p, 0);
        if (!isxdigit(c))
            return mt_parse_fail(p, "%u hexadecimal digits expected", digits);
        bits = bits << 4 | (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    o->kind = digits == 8 ? MT_ASM_F32 : MT_ASM_F64;
    o->bits = bits;
    return 0;
}

int mt_parse_number(struct mt_parser *p, struct mt_asm_operand *o)
{
    char text[64];
    size_t n = 0;
    int real = 0, base = 10;
    if (mt_parse_peek(p, 0) == '0' && (mt_parse_peek(p, 1) == 'f' || mt_parse_peek(p, 1) == 'F'))
        return hex_float(p, o, 8);
    if (mt_parse_peek(p, 0) == '0' && (mt_parse_peek(p, 1) == 'd' || mt_parse_peek(p, 1) == 'D'))
        return hex_float(p, o, 16);
    if (mt_parse_peek(p, 0) == '0' && (mt_parse_peek(p, 1) == 'x' || mt_parse_peek(p, 1) == 'X'))
        base = 16;
    else if (mt_parse_peek(p, 0) == '0' && (mt_parse_peek(p, 1) == 'b' || mt_parse_peek(p, 1) == 'B'))
        base = 2;
    else if (mt_parse_peek(p, 0) == '0' && isdigit(mt_parse_peek(p, 1)))
        base = 8;
    if (base == 16 || base == 2)
        p->at += 2;
    while (n < sizeof text - 1) {
        int c = mt_parse_peek(p, 0);
        if (base == 10 && (c == '.' || ((c == 'e' || c == 'E') && n) ||
                           ((c == '-' || c == '+') && n && tolower(text[n - 1]) == 'e')))
            real = 1;
        else if (!(base == 16 ? isxdigit(c) : isdigit(c)))
            break;
        text[n++] = (char)c;
        p->at++;
    }
    text[n] = 0;
    if (!n)
        return mt_parse_fail(p, "number expected");
    char *stop = text;
    if (real) {
        double value = strtod(text, &stop);
        o->kind = MT_ASM_F64;
        memcpy(&o->bits, &value, sizeof value);
    } else {
        o->kind = MT_ASM_INT;
        o->bits = strtoull(text, &stop, base);
        if (mt_parse_peek(p, 0) == 'U')
            p->at++;
    }
    return *stop ? mt_parse_fail(p, "number expected instead of '%s'", text) : 0;
}

static int asm_operand_list(struct mt_parser *p, struct mt_asm_operand *o, char close)
{
    unsigned cap = 0;
    if (++p->depth > MT_PARSE_DEPTH)
        return mt_parse_fail(p, "nested too deep");
    if (!mt_parse_accept(p, close)) {
        do {
            o->items = mt_parse_grow(p, o->items, o->nitems, &cap, sizeof *o->items);
            if (!o->items)
                return -1;
            memset(&o->items[o->nitems], 0, sizeof *o->items);
            if (mt_parse_operand(p, &o->items[o->nitems]))
                return -1;
            o->nitems++;
        } while (mt_parse_accept(p, ','));
        if (mt_parse_expect(p, close))
            return -1;
    }
    p->depth--;
    return 0;
}

/* Reads the offset after the address: "+16", "-4", "+$2". */
static int asm_operand_displacement(struct mt_parser *p, struct mt_asm_operand *o)
{
    for (;;) {
        int minus = 0;
        mt_parse_space(p);
        if (mt_parse_peek(p, 0) != '+' && mt_parse_peek(p, 0) != '-')
            return 0;
        do {
            minus ^= mt_parse_peek(p, 0) == '-';
            p->at++;
            mt_parse_space(p);
        } while (mt_parse_peek(p, 0) == '-' || mt_parse_peek(p, 0) == '+');
        struct mt_asm_operand x = {0};
        if (!mt_parse_constant(p, &x, 10) && mt_parse_operand(p, &x))
            return -1;
        if (x.kind == MT_ASM_INT) {
            o->offset = (int64_t)((uint64_t)o->offset + (minus ? 0 - x.bits : x.bits));
        } else if (!minus && !o->second && (x.kind == MT_ASM_ARG || x.kind == MT_ASM_REG)) {
            o->second = mt_parse_alloc(p, sizeof x);
            if (!o->second)
                return mt_parse_no_memory(p);
            *o->second = x;
        } else {
            return mt_parse_fail(p, "address form not understood");
        }
    }
}

static int asm_operand_memory(struct mt_parser *p, struct mt_asm_operand *o)
{
    unsigned cap = 0;
    o->kind = MT_ASM_MEMORY;
    do {
        o->items = mt_parse_grow(p, o->items, o->nitems, &cap, sizeof *o->items);
        if (!o->items)
            return -1;
        memset(&o->items[o->nitems], 0, sizeof *o->items);
        if (mt_parse_operand(p, &o->items[o->nitems]))
            return -1;
        o->nitems++;
        if (o->nitems == 1 && asm_operand_displacement(p, o))
            return -1;
    } while (mt_parse_accept(p, ','));
    return mt_parse_expect(p, ']');
}

static void asm_operand_resolve(struct mt_parser *p, struct mt_asm_operand *o, const char *text)
{
    o->name = text;
    if (!strcmp(text, "_")) {
        o->kind = MT_ASM_SINK;
        return;
    }
    const struct mt_asm_reg *reg = mt_parse_find_reg(p, text);
    if (reg) {
        o->kind = MT_ASM_REG;
        o->index = (unsigned)(reg - p->a->regs);
        return;
    }
    o->kind = *text == '%' ? MT_ASM_SREG : MT_ASM_NAME;
    o->name = text + (*text == '%');
}

static int asm_operand_plain(struct mt_parser *p, struct mt_asm_operand *o)
{
    int c = mt_parse_peek(p, 0);
    if (c == '$' && !name_piece(p, 0))
        return asm_operand_argument(p, o);
    if (isdigit(c) || (c == '.' && isdigit(mt_parse_peek(p, 1))))
        return mt_parse_number(p, o);
    if (c == '{' || (c == '(' && p->calls)) {
        p->at++;
        o->kind = MT_ASM_VECTOR;
        return asm_operand_list(p, o, c == '{' ? '}' : ')');
    }
    if (c == '[') {
        p->at++;
        return asm_operand_memory(p, o);
    }
    if (c != '%' && c != '_' && c != '$' && !isalpha(c))
        return mt_parse_fail(
            p, p->at < p->end ? "operand expected before '%.12s'" : "operand expected at the end%s",
            p->at < p->end ? p->at : "");
    const char *text = mt_parse_name(p, 0);
    if (!text)
        return -1;
    asm_operand_resolve(p, o, text);
    if (o->kind == MT_ASM_SREG && mt_parse_peek(p, 0) == '.' && isalpha(mt_parse_peek(p, 1)) &&
        !isalnum(mt_parse_peek(p, 2))) {
        size_t n = strlen(o->name);
        char *longer = mt_parse_alloc(p, n + 3);
        if (!longer)
            return mt_parse_no_memory(p);
        memcpy(longer, o->name, n);
        longer[n] = '.';
        longer[n + 1] = p->at[1];
        o->name = longer;
        p->at += 2;
    }
    int symbol = o->kind == MT_ASM_NAME || (o->kind == MT_ASM_REG && p->a->regs[o->index].memory);
    return p->directive && symbol ? asm_operand_displacement(p, o) : 0;
}

/* Reads a part of a register: ".b0" to ".b3", ".h0", ".h1". */
static void asm_operand_part(struct mt_parser *p, struct mt_asm_operand *o)
{
    int kind = mt_parse_peek(p, 1), number = mt_parse_peek(p, 2);
    if ((o->kind != MT_ASM_REG && o->kind != MT_ASM_ARG) || mt_parse_peek(p, 0) != '.' ||
        (kind != 'b' && kind != 'h') || number < '0' || number > '3' || isalnum(mt_parse_peek(p, 3)))
        return;
    o->part[0] = (char)kind;
    o->part[1] = (char)number;
    p->at += 3;
}

int mt_parse_operand(struct mt_parser *p, struct mt_asm_operand *o)
{
    if (p->failed || ++p->depth > 2 * MT_PARSE_DEPTH)
        return mt_parse_fail(p, "nested too deep");
    mt_parse_space(p);
    if (!(p->calls && mt_parse_peek(p, 0) == '(') && mt_parse_constant(p, o, 0)) {
        p->depth--;
        return 0;
    }
    if (mt_parse_peek(p, 0) == '!' || mt_parse_peek(p, 0) == '-') {
        o->inverted = 1;
        p->at++;
        mt_parse_space(p);
    } else if (mt_parse_peek(p, 0) == '+') {
        p->at++;
        mt_parse_space(p);
    }
    if (asm_operand_plain(p, o))
        return -1;
    asm_operand_part(p, o);
    if (o->inverted && o->kind == MT_ASM_INT) {
        o->bits = 0 - o->bits;
        o->inverted = 0;
    } else if (o->inverted && (o->kind == MT_ASM_F32 || o->kind == MT_ASM_F64)) {
        o->bits ^= 1ull << (o->kind == MT_ASM_F32 ? 31 : 63);
        o->inverted = 0;
    }
    if (mt_parse_accept(p, '|')) {
        o->second = mt_parse_alloc(p, sizeof *o);
        if (!o->second)
            return mt_parse_no_memory(p);
        if (mt_parse_operand(p, o->second))
            return -1;
    }
    p->depth--;
    return 0;
}
