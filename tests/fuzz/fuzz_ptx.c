/* libFuzzer target: any bytes as a module of PTX; and as the body of a kernel, which most mutations of a
 * whole module do not get to. What is made of it must be valid,
 * and what is refused be said with a line. tests/fuzz/README.md */
#include "ptx/module/module.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned told;

static void take_message(void *ctx, unsigned line, const char *message)
{
    told++;
    if (!*message || (!line && strstr(message, "not valid"))) /* what was made, not the text */
        abort();
}

static char *kernel; /* the first one of a base */

static int take_content(void *ctx, const struct mt_ptx_content *c)
{
    for (unsigned i = 0; i < c->nplaces; i++)
        free(mt_ptx_place_file(&c->places[i]));
    if (!kernel)
        kernel = strdup(c->kernel);
    return c->length ? 0 : -1;
}

static void read_part(struct mt_ptx_source *source, struct mt_ptx_result *result)
{
    LLVMContextRef context = LLVMContextCreate();
    told = 0;
    LLVMModuleRef module = mt_ptx_read(context, source, result);
    if ((!module || result->failed) && !told && !result->undivided)
        abort();
    if (module)
        LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

static void read_text(const char *text, size_t size)
{
    struct mt_ptx_result result, one;
    struct mt_ptx_source source = {
        .name = "fuzz.ptx", .text = text, .length = size, .tell = take_message, .content = take_content};
    read_part(&source, &result);
    source.part = MT_PTX_BASE;
    read_part(&source, &result);
    source.part = MT_PTX_KERNEL;
    if ((source.kernel = kernel))
        read_part(&source, &one);
    free(kernel);
    kernel = NULL;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const char head[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 s[];\n.global .u32 g;\n"
        ".func (.param .b32 r) f(.param .b32 n, .param .align 8 .b8 a[16]);\n"
        ".visible .entry k(.param .u64 p, .param .align 8 .b8 q[24])\n{\n.reg .pred %p<4>;\n.reg .b16 "
        "%h<4>;\n"
        ".reg .b32 %r<8>;\n.reg .b64 %d<8>;\n.reg .f32 %f<4>;\nld.param.u64 %d1, [p];\ncvta.to.global.u64 "
        "%d2, %d1;\n";
    char *text = malloc(sizeof head + size + 8);
    if (!text)
        return 0;
    read_text((const char *)data, size);
    memcpy(text, head, sizeof head - 1);
    memcpy(text + sizeof head - 1, data, size);
    memcpy(text + sizeof head - 1 + size, "\nret;\n}\n", 8);
    read_text(text, sizeof head - 1 + size + 8);
    free(text);
    return 0;
}
