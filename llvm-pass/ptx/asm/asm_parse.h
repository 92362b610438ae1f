/* Shared by the files of the asm parser. Functions that return int give 0, or -1 with the error filled. */
#ifndef MT_ASM_ASM_PARSE_H
#define MT_ASM_ASM_PARSE_H

#include "asm.h"

#define MT_PARSE_DEPTH 32               /* maximum nesting of blocks and braces */
#define MT_PARSE_REGS 65536             /* maximum registers of one body */
#define MT_PARSE_MODULE_REGS (1u << 28) /* maximum registers of a function in a module */
#define MT_PARSE_REG_BYTES 256          /* approximate memory of one */

struct mt_asm_chunk {
    struct mt_asm_chunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

/* Budget for memory that a module's text declares by a number without spelling it out (registers <N>,
 * zeros), so that a small text cannot take any amount. A longer text may have more. */
struct mt_parse_room {
    uint64_t limit, by_text, asked; /* bytes: the user's limit, the text's allowance, the amount used */
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
    uint32_t *buckets; /* visible registers by name: the innermost, counted from 1 */
    unsigned nbuckets, scope;
    int calls; /* 1: the statement is a call, where '(' begins a list; elsewhere an expression */
    /* Handles a directive in a function's body of a module (names may have '$'). Returns 1: read; 0: as in
     * inline asm; -1: failed. NULL: this is inline asm. */
    int (*directive)(struct mt_parser *p, const char *word);
    void *ctx;
    struct mt_parse_room *room; /* NULL: no bound */
};

/* Parses the statements up to the end of the text, or to the '}' that matches the '{' before it. */
int mt_parse_body(struct mt_parser *p, int inner);

/* Adds a register, or memory of a module, visible from here on. Returns its index, or -1. */
int mt_parse_add_reg(struct mt_parser *p, const struct mt_asm_reg *reg);

/* Returns zeroed memory that lives as long as the struct mt_asm, or NULL without memory. */
void *mt_parse_alloc(struct mt_parser *p, size_t size);

/* Makes room for one more element. Returns the array, perhaps moved, or NULL without memory. */
void *mt_parse_grow(struct mt_parser *p, void *array, unsigned count, unsigned *cap, size_t size);

/* Requests `bytes` for `name` that its text does not spell out. */
int mt_parse_ask(struct mt_parser *p, uint64_t bytes, const char *name);

int mt_parse_fail(struct mt_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int mt_parse_no_memory(struct mt_parser *p);
int mt_parse_peek(const struct mt_parser *p, size_t i); /* next character; 0 at the end */
void mt_parse_space(struct mt_parser *p);               /* skips blanks and comments */

int mt_parse_accept(struct mt_parser *p, char c); /* returns 1 and skips the next character if it is
                                                   * c */
int mt_parse_expect(struct mt_parser *p, char c);

/* Reads an identifier, with `opcode` also dots and "::"; "$$" becomes "$", "${:uid}" becomes "uid". */
const char *mt_parse_name(struct mt_parser *p, int opcode);

int mt_parse_number(struct mt_parser *p, struct mt_asm_operand *o);

/* Reads an integer, or an expression of integers with operators that bind at least this
 * closely (0: all, 10: products). Returns 0 with the cursor unmoved if there is none. */
int mt_parse_constant(struct mt_parser *p, struct mt_asm_operand *o, unsigned least);

#endif
