/* From a program counter to a site: modules, where their functions lie, which sites there are. */
#include "code.h"
#include <stdlib.h>

struct mt_gpu_code {
    size_t bytes;
};

struct mt_gpu_code *mt_code_new(const void *cubin, size_t bytes)
{
    struct mt_gpu_code *c = cubin ? calloc(1, sizeof *c) : NULL;
    if (c)
        c->bytes = bytes;
    return c;
}

void mt_code_place(struct mt_gpu_code *c,
                   int (*where)(void *data, const char *function, uint64_t *pc, uint64_t *size), void *data)
{
}

int mt_code_each_kernel(const struct mt_gpu_code *c, int (*f)(void *data, const char *mangled), void *data)
{
    return 0;
}

void mt_code_unload(struct mt_gpu_code *c)
{
    free(c);
}

uint32_t mt_code_site(uint64_t pc, uint32_t meta)
{
    return 0;
}
