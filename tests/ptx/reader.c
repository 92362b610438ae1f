#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reader.h"
#include "../asm/harness.h"

const struct asm_symbol asm_symbols[] = {{NULL, NULL, NULL}};

static void reader_tell(void *ctx, unsigned line, const char *message)
{
    struct reader_words *w = ctx;
    if (!w->count++) {
        w->line = line;
        snprintf(w->text, sizeof w->text, "%s", message);
    }
}

static int reader_content(void *ctx, const struct mt_ptx_content *c)
{
    struct reader_words *w = ctx;
    size_t end = strlen(w->kernels);
    snprintf(w->kernels + end, sizeof w->kernels - end, "%s ", c->kernel);
    if (strcmp(c->kernel, "a") != 0)
        return 0;
    assert_true(c->length < sizeof w->content);
    memcpy(w->content, c->text, c->length);
    for (unsigned i = 0; i < c->nplaces; i++) {
        char *path = mt_ptx_place_file(&c->places[i]);
        end = strlen(w->places);
        snprintf(w->places + end, sizeof w->places - end, "%s:%u+%u ", path ? path : "", c->places[i].line,
                 c->places[i].lines);
        free(path);
    }
    return 0;
}

static LLVMModuleRef reader_any(struct mt_ptx_source *source, struct mt_ptx_result *result,
                                struct reader_words *words)
{
    source->name = "test.ptx";
    source->tell = reader_tell;
    source->content = reader_content;
    source->ctx = words;
    *words = (struct reader_words){0};
    return mt_ptx_read(asm_context(), source, result);
}

LLVMModuleRef reader_read(const char *text, size_t length, struct mt_ptx_result *result,
                          struct reader_words *words)
{
    return reader_any(&(struct mt_ptx_source){.text = text, .length = length}, result, words);
}

LLVMModuleRef reader_part(const char *text, enum mt_ptx_part part, const char *kernel,
                          struct mt_ptx_result *result, struct reader_words *words)
{
    struct mt_ptx_source source = {.text = text, .length = strlen(text), .part = part, .kernel = kernel};
    return reader_any(&source, result, words);
}

void *reader_jit(const char *text, const char *function)
{
    struct mt_ptx_result result;
    struct reader_words words;
    struct mt_asm_error error = {0};
    LLVMModuleRef m = reader_read(text, strlen(text), &result, &words);
    if (!m || words.count)
        fail_msg("line %u: %s", words.line, words.text);
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f)) {
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, "target-cpu", 10);
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, "target-features", 15);
    }
    asm_host(m);
    void *at = asm_jit(m, function, &error);
    if (!at)
        fail_msg("%s", error.message);
    return at;
}
