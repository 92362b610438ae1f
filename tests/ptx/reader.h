/* Modules of PTX in tests: read, and run on the host where they are plain IR. One context for the process. */
#ifndef MT_TEST_PTX_READER_H
#define MT_TEST_PTX_READER_H
#include "ptx/module/module.h"

/* What was reported; the first message and its line. */
struct reader_words {
    unsigned count, line;
    char text[400];
    /* Of a part: names of its kernels, a blank after each; of the one called a what it is made of, and its
     * lines. */
    char kernels[200], content[8192], places[400];
};

/* NULL: it was refused. The module is the caller's. */
LLVMModuleRef reader_read(const char *text, size_t length, struct mt_ptx_result *result,
                          struct reader_words *words);
LLVMModuleRef reader_part(const char *text, enum mt_ptx_part part, const char *kernel,
                          struct mt_ptx_result *result, struct reader_words *words);
/* A function of the text, compiled for the host; the test fails when that cannot be. */
void *reader_jit(const char *text, const char *function);
#endif
