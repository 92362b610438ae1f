/* What the two files of the asm parser share. Functions that return int give 0, or -1 with the error filled.
 */
#ifndef MT_PASS_ASM_PARSER_H
#define MT_PASS_ASM_PARSER_H
#include "asm.h"

#define MT_PARSE_DEPTH 32   /* nested blocks and braces */
#define MT_PARSE_REGS 65536 /* registers of one body */

struct mt_asm_chunk {
    struct mt_asm_chunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

struct mt_parser {
    struct mt_asm *a;
    const char *text, *at, *end;
    struct mt_asm_error *error;
    int failed;
    unsigned depth;
    unsigned statements_cap, regs_cap;
    unsigned *visible; /* indices of registers in scope, innermost last */
    unsigned nvisible, visible_cap;
};

/* Zeroed memory that lives as long as the struct mt_asm; NULL when there is none. */
void *mt_parse_alloc(struct mt_parser *p, size_t size);
/* Room for one more element: returns the (perhaps moved) array, NULL when memory is out. */
void *mt_parse_grow(struct mt_parser *p, void *array, unsigned count, unsigned *cap, size_t size);
int mt_parse_fail(struct mt_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int mt_parse_no_memory(struct mt_parser *p);
int mt_parse_peek(const struct mt_parser *p, size_t i); /* 0 at the end */
void mt_parse_space(struct mt_parser *p);               /* skips blanks and comments */
int mt_parse_accept(struct mt_parser *p, char c);       /* 1 and past it when the next character is c */
int mt_parse_expect(struct mt_parser *p, char c);
/* An identifier, or with `opcode` also dots and "::"; "$$" becomes "$", "${:uid}" becomes "uid". */
const char *mt_parse_name(struct mt_parser *p, int opcode);
int mt_parse_number(struct mt_parser *p, struct mt_asm_operand *o);
int mt_parse_operand(struct mt_parser *p, struct mt_asm_operand *o); /* *o zeroed by the caller */
#endif
