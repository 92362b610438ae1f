/* What the two files of the asm parser share. Functions that return int give 0,
 * or -1 with the error filled. */
#ifndef MT_PASS_ASM_PARSER_H
#define MT_PASS_ASM_PARSER_H
#include "asm.h"

#define MT_PARSE_DEPTH 32               /* nested blocks and braces */
#define MT_PARSE_REGS 65536             /* registers of one body */
#define MT_PARSE_MODULE_REGS (1u << 28) /* of a function in a module */
#define MT_PARSE_REG_BYTES 256          /* memory of one, about */

struct mt_asm_chunk {
    struct mt_asm_chunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

/* Memory for what a module's text declares by a number and does not spell out (registers <N>, zeros): a small
 * text must not take any amount. A text may have more the longer it is. */
struct mt_parse_room {
    uint64_t limit, by_text, asked; /* bytes: the user's number, that of the text; what has been asked for */
};

struct mt_parser {
    struct mt_asm *a;
    const char *text, *at, *end;
    struct mt_asm_error *error;
    int failed;
    unsigned depth;
    unsigned statements_cap, regs_cap, scopes_cap;
    unsigned *visible; /* indices of registers in scope, innermost last */
    unsigned nvisible, visible_cap;
    uint32_t *buckets; /* of visible registers by name: the innermost, counted from 1 */
    unsigned nbuckets, scope;
    int calls; /* the statement is a call: '(' begins a list, elsewhere an expression */
    /* Of a function's body in a module (names may have '$'): a directive is at the cursor. 1: read; 0: as
     * in inline asm; -1: failed. NULL: this is inline asm. */
    int (*directive)(struct mt_parser *p, const char *word);
    void *ctx;
    struct mt_parse_room *room; /* NULL: there is no bound */
};

/* The statements up to the end of the text, or to the '}' of the '{' before it. */
int mt_parse_body(struct mt_parser *p, int inner);
/* A register, or memory of a module, that is in scope from here on. Its index, or -1. */
int mt_parse_add_reg(struct mt_parser *p, const struct mt_asm_reg *reg);
/* The visible one of that name, NULL: none. */
const struct mt_asm_reg *mt_parse_find_reg(const struct mt_parser *p, const char *name);
/* Zeroed memory that lives as long as the struct mt_asm; NULL when there is none. */
void *mt_parse_alloc(struct mt_parser *p, size_t size);
/* Room for one more element: returns the (perhaps moved) array, NULL when memory is out. */
void *mt_parse_grow(struct mt_parser *p, void *array, unsigned count, unsigned *cap, size_t size);
/* `name` asks for `bytes` that its text does not have. */
int mt_parse_ask(struct mt_parser *p, uint64_t bytes, const char *name);
int mt_parse_fail(struct mt_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int mt_parse_no_memory(struct mt_parser *p);
int mt_parse_peek(const struct mt_parser *p, size_t i); /* 0 at the end */
void mt_parse_space(struct mt_parser *p);               /* skips blanks and comments */
int mt_parse_accept(struct mt_parser *p, char c);       /* 1 and past it when the next character is c */
int mt_parse_expect(struct mt_parser *p, char c);
/* An identifier, or with `opcode` also dots and "::"; "$$" becomes "$", "${:uid}" becomes "uid". */
const char *mt_parse_name(struct mt_parser *p, int opcode);
int mt_parse_number(struct mt_parser *p, struct mt_asm_operand *o);
/* asm_constant.c: an integer, or an expression of integers, of operators at least so close: 0: all, 10:
 * products. 0: none is here, the cursor stays. */
int mt_parse_constant(struct mt_parser *p, struct mt_asm_operand *o, unsigned least);
int mt_parse_operand(struct mt_parser *p, struct mt_asm_operand *o); /* *o zeroed by the caller */
#endif
