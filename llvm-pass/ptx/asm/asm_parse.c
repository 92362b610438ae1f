/* Parser of PTX inline assembly in LLVM IR: blocks, declarations, labels, statements. One pass over the text
 * by recursive descent; all results live in the arena of the struct mt_asm. */
#include "asm_parse.h"
#include "asm_lower.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Constant expressions of PTX: C's operators on 64-bit integers, with (.s64) and (.u64) as casts. A number
 * that ends in U or does not fit is unsigned, and so is an operation with an unsigned operand. */

struct constant {
    uint64_t bits;
    int is_unsigned;
};

/* Returns 0 if it is no expression of integers, or (p->failed) too deep. */
static int constant_sum(struct mt_parser *p, struct constant *v, unsigned least);

static int constant_cast(struct mt_parser *p)
{
    static const char *const words[] = {".s64)", ".u64)"};
    for (int i = 0; i < 2; i++)
        if ((size_t)(p->end - p->at) >= 5 && !memcmp(p->at, words[i], 5)) {
            p->at += 5;
            return words[i][1];
        }
    return 0;
}

static int constant_in_brackets(struct mt_parser *p, struct constant *v)
{
    int cast;
    mt_parse_space(p);
    if ((cast = constant_cast(p))) {
        if (!constant_sum(p, v, 11))
            return 0;
        v->is_unsigned = cast == 'u';
        return 1;
    }
    return constant_sum(p, v, 0) && mt_parse_accept(p, ')');
}

static int constant_number(struct mt_parser *p, struct constant *v)
{
    struct mt_asm_operand o = {0};
    int next = tolower(mt_parse_peek(p, 1));
    if (!isdigit(mt_parse_peek(p, 0)) || (*p->at == '0' && (next == 'f' || next == 'd')) ||
        mt_parse_number(p, &o) || o.kind != MT_ASM_INT)
        return 0;
    *v = (struct constant){o.bits, p->at[-1] == 'U' || o.bits >> 63};
    return 1;
}

static int constant_unary(struct mt_parser *p, struct constant *v)
{
    mt_parse_space(p);
    int c = mt_parse_peek(p, 0);
    if (c == '(') {
        p->at++;
        return constant_in_brackets(p, v);
    }
    if (!c || !strchr("+-!~", c))
        return constant_number(p, v);
    p->at++;
    if (!constant_sum(p, v, 11))
        return 0;
    v->bits = c == '-' ? 0 - v->bits : c == '~' ? ~v->bits : c == '!' ? !v->bits : v->bits;
    return 1;
}

/* Returns the index in `constant_words` of the operator at the cursor, if it binds at least that closely;
 * -1: none. A constant must follow it. */
static const struct {
    char word[3];
    unsigned close;
} constant_words[] = {{"*", 10}, {"/", 10}, {"%", 10}, {"+", 9}, {"-", 9}, {"<<", 8},
                      {">>", 8}, {"<=", 7}, {">=", 7}, {"<", 7}, {">", 7}, {"==", 6},
                      {"!=", 6}, {"&&", 2}, {"||", 1}, {"&", 5}, {"^", 4}, {"|", 3}};

static int constant_operator(struct mt_parser *p, unsigned least)
{
    mt_parse_space(p);
    for (unsigned i = 0; i < sizeof constant_words / sizeof *constant_words; i++) {
        size_t n = strlen(constant_words[i].word);
        if ((size_t)(p->end - p->at) <= n || memcmp(p->at, constant_words[i].word, n) != 0)
            continue;
        const char *next = p->at + n;
        while (next < p->end && (*next == ' ' || *next == '\t'))
            next++;
        if (constant_words[i].close < least || next == p->end ||
            !(isdigit((unsigned char)*next) || strchr("(+-!~", *next)))
            return -1;
        p->at += n;
        return (int)i;
    }
    return -1;
}

/* Division by zero has no result. */
static int constant_divide(struct constant *a, struct constant b, int rest)
{
    int64_t x = (int64_t)a->bits, y = (int64_t)b.bits;
    if (!b.bits)
        return 0;
    if (a->is_unsigned)
        a->bits = rest ? a->bits % b.bits : a->bits / b.bits;
    else if (y == -1)
        a->bits = rest ? 0 : 0 - a->bits;
    else
        a->bits = (uint64_t)(rest ? x % y : x / y);
    return 1;
}

static int constant_compare(const struct constant *a, const struct constant *b)
{
    if (a->bits == b->bits)
        return 0;
    int less = a->is_unsigned ? a->bits < b->bits : (int64_t)a->bits < (int64_t)b->bits;
    return less ? -1 : 1;
}

static uint64_t constant_shift(struct constant a, uint64_t by, int left)
{
    if (by > 63)
        return left || a.is_unsigned || !(a.bits >> 63) ? 0 : UINT64_MAX;
    return left ? a.bits << by : a.is_unsigned ? a.bits >> by : (uint64_t)((int64_t)a.bits >> by);
}

static int constant_apply(const char *op, struct constant *a, struct constant b)
{
    int is_shift = (*op == '<' || *op == '>') && op[1] == *op, two = op[1] == '=';
    if (is_shift) {
        a->bits = constant_shift(*a, b.bits, *op == '<');
        return 1;
    }
    a->is_unsigned |= b.is_unsigned;
    if (*op == '/' || *op == '%')
        return constant_divide(a, b, *op == '%');
    int order = constant_compare(a, &b), logic = strchr("<>=!", *op) != NULL || op[1] == '&' || op[1] == '|';
    switch (*op) {
    case '*':
        a->bits *= b.bits;
        break;
    case '+':
        a->bits += b.bits;
        break;
    case '-':
        a->bits -= b.bits;
        break;
    case '^':
        a->bits ^= b.bits;
        break;
    case '&':
        a->bits = op[1] ? a->bits && b.bits : a->bits & b.bits;
        break;
    case '|':
        a->bits = op[1] ? a->bits || b.bits : a->bits | b.bits;
        break;
    case '<':
        a->bits = order < 0 || (two && !order);
        break;
    case '>':
        a->bits = order > 0 || (two && !order);
        break;
    default:
        a->bits = (*op == '=') == !order;
        break;
    }
    a->is_unsigned &= !logic;
    return 1;
}

static int constant_choice(struct mt_parser *p, struct constant *v)
{
    struct constant yes, no;
    if (!mt_parse_accept(p, '?'))
        return 1;
    if (!constant_sum(p, &yes, 0) || !mt_parse_accept(p, ':') || !constant_sum(p, &no, 0))
        return 0;
    *v = v->bits ? yes : no;
    v->is_unsigned = yes.is_unsigned | no.is_unsigned;
    return 1;
}

static int constant_sum(struct mt_parser *p, struct constant *v, unsigned least)
{
    int op, good = 0;
    if (++p->depth > 2 * MT_PARSE_DEPTH) {
        mt_parse_fail(p, "nested too deep");
        return 0;
    }
    good = constant_unary(p, v);
    while (good && (op = constant_operator(p, least)) >= 0) {
        struct constant b;
        good = constant_sum(p, &b, constant_words[op].close + 1) &&
               constant_apply(constant_words[op].word, v, b);
    }
    good = good && (least || constant_choice(p, v));
    p->depth--;
    return good;
}

int mt_parse_constant(struct mt_parser *p, struct mt_asm_operand *o, unsigned least)
{
    const char *from = p->at;
    struct constant v;
    unsigned depth = p->depth;
    struct mt_asm_error before = *p->error;
    if (constant_sum(p, &v, least)) {
        o->kind = MT_ASM_INT;
        o->bits = v.bits;
        return 1;
    }
    p->at = from; /* another kind of operand */
    p->depth = depth;
    *p->error = before;
    p->failed = 0;
    return 0;
}

/* Lexer and operands of PTX inline assembly: $n and ${n}, registers, special registers,
 * numbers, vectors, memory. */

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

static int parse_operand(struct mt_parser *p, struct mt_asm_operand *o);

/* Appends the operand at the cursor to the items. */
static int asm_operand_append(struct mt_parser *p, struct mt_asm_operand *o, unsigned *cap)
{
    o->items = mt_parse_grow(p, o->items, o->nitems, cap, sizeof *o->items);
    if (!o->items)
        return -1;
    memset(&o->items[o->nitems], 0, sizeof *o->items);
    return parse_operand(p, &o->items[o->nitems++]);
}

static int asm_operand_list(struct mt_parser *p, struct mt_asm_operand *o, char close)
{
    unsigned cap = 0;
    if (++p->depth > MT_PARSE_DEPTH)
        return mt_parse_fail(p, "nested too deep");
    if (!mt_parse_accept(p, close)) {
        do {
            if (asm_operand_append(p, o, &cap))
                return -1;
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
        if (!mt_parse_constant(p, &x, 10) && parse_operand(p, &x))
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
        if (asm_operand_append(p, o, &cap))
            return -1;
        if (o->nitems == 1 && asm_operand_displacement(p, o))
            return -1;
    } while (mt_parse_accept(p, ','));
    return mt_parse_expect(p, ']');
}

static const struct mt_asm_reg *parse_find_reg(const struct mt_parser *p, const char *name);

static void asm_operand_resolve(struct mt_parser *p, struct mt_asm_operand *o, const char *text)
{
    o->name = text;
    if (!strcmp(text, "_")) {
        o->kind = MT_ASM_SINK;
        return;
    }
    const struct mt_asm_reg *reg = parse_find_reg(p, text);
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

/* *o zeroed by the caller */
static int parse_operand(struct mt_parser *p, struct mt_asm_operand *o)
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
        if (parse_operand(p, o->second))
            return -1;
    }
    p->depth--;
    return 0;
}

/* ---- statements --------------------------------------------------------------------------------- */

static uint32_t asm_parse_hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

/* Returns the visible register of that name, or NULL. */
static const struct mt_asm_reg *parse_find_reg(const struct mt_parser *p, const char *name)
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
static int parse_add_range(struct mt_parser *p, const char *stem, char type, unsigned bits)
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
            (mt_parse_accept(p, '<') ? parse_add_range(p, text, *type, bits) : add_reg(p, text, *type, bits)))
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
        if (parse_operand(p, s->predicate))
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
            if (parse_operand(p, &all.items[all.nitems]))
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
