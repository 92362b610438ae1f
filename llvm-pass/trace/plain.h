/* Functions without record calls, for launches that are not traced. */
#ifndef MT_PASS_PLAIN_H
#define MT_PASS_PLAIN_H
#include "unit/unit.h"

struct mt_plain {
    LLVMValueRef *function, *copy; /* copy: NULL until made */
    unsigned count;
    size_t cap;
};

/* Finds the functions of an instrumented module that can reach a record call. */
void mt_plain_find(struct mt_plain *p, LLVMModuleRef module);
/* Adds a function that reaches them in another way. */
void mt_plain_add(struct mt_plain *p, LLVMValueRef function);
int mt_plain_has(const struct mt_plain *p, LLVMValueRef function);
/* Makes an internal copy of each, with `suffix` after its name; the copies call each other. */
void mt_plain_make(struct mt_plain *p, const char *suffix);
/* Returns NULL if it has none. */
LLVMValueRef mt_plain_copy(const struct mt_plain *p, LLVMValueRef function);
void mt_plain_free(struct mt_plain *p);
#endif
