/* Constant expressions of PTX: C's operators on 64-bit integers, with (.s64) and (.u64) as casts. A number
 * that ends in U or does not fit is unsigned, and so is an operation with an unsigned operand. */
#include "asm_parser.h"
#include <ctype.h>
#include <string.h>

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
