/* Callbacks of -fsanitize-coverage=func,trace-loads,trace-stores: an independent record of the same accesses,
 * as 16-byte entries (address, size, 1 for a store) in the file that COUNTER names. Compiled without it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct entry {
    uint64_t address;
    uint32_t size, store;
};
static FILE *out;

__attribute__((constructor(101))) static void start(void)
{
    out = fopen(getenv("COUNTER"), "wb");
}

__attribute__((destructor)) static void stop(void)
{
    fclose(out);
    out = NULL;
}

static void counter_put(void *p, uint32_t size, uint32_t store)
{
    struct entry e = {(uint64_t)(uintptr_t)p, size, store};
    if (out)
        fwrite(&e, sizeof e, 1, out);
}

#define BOTH(n)                                                                                              \
    void __sanitizer_cov_load##n(void *p)                                                                    \
    {                                                                                                        \
        counter_put(p, n, 0);                                                                                \
    }                                                                                                        \
    void __sanitizer_cov_store##n(void *p)                                                                   \
    {                                                                                                        \
        counter_put(p, n, 1);                                                                                \
    }
BOTH(1)
BOTH(2)
BOTH(4)
BOTH(8)
BOTH(16)
