#include "program.h"
#include "util.h"
#include "format/image.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                       int constant, int global);

#define STUB(name)                                                                                           \
    void name(void)                                                                                          \
    {                                                                                                        \
        fputs(#name, stdout); /* stubs must differ */                                                        \
    }
STUB(stub_fill)
STUB(stub_nothing)
STUB(stub_trap)
STUB(stub_unsupported)
STUB(stub_foreign)
STUB(stub_meet)
STUB(stub_step)
STUB(stub_gone)
STUB(stub_wide)
int program_streams;
int program_wide;
const char *program_image, *program_foreign = "_Zforeign";
unsigned shadow_counter[4], shadow_konst[4], shadow_foreign, shadow_gone;

struct wrapper {
    int magic, version;
    const void *data, *more;
};

/* A fatbin header with 8 bytes of nothing; after it the image, when there is one. */
static struct wrapper *program_make(const char *image)
{
    static const uint64_t head[] = {0xba55ed50u | 1ull << 32 | 16ull << 48, 8, 0};
    size_t n = 0;
    char *object = image ? slurp(image, &n) : NULL;
    char *all = calloc(1, sizeof head + sizeof(struct mt_payload) + n + 64);
    memcpy(all, head, sizeof head);
    if (object) {
        struct mt_payload p = {MT_PAYLOAD_MAGIC, n};
        memcpy(all + sizeof head, &p, sizeof p);
        memcpy(all + sizeof head + sizeof p, object, n);
    }
    free(object);
    struct wrapper *w = malloc(sizeof *w);
    *w = (struct wrapper){0x466243b1, 1, all, NULL};
    return w;
}

static void program_add(void **h, void (*stub)(void), const char *name)
{
    __cudaRegisterFunction(h, (const char *)stub, (char *)name, name, -1, NULL, NULL, NULL, NULL, NULL);
}

void program_come_and_go(void)
{
    struct wrapper *w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *w = (struct wrapper){0x466243b1, 1, (char *)w + 1024, NULL};
    void **h = __cudaRegisterFatBinary(w);
    program_add(h, stub_gone, "_Zgone");
    __cudaRegisterVar(h, (char *)&shadow_gone, "gone", "gone", 0, sizeof shadow_gone, 0, 0);
    __cudaRegisterFatBinaryEnd(h);
    __cudaUnregisterFatBinary(h);
    munmap(w, 4096);
}

void **program_again(void (*stub)(void), const char *name)
{
    void **h = __cudaRegisterFatBinary(program_make(TEST_IMAGE));
    program_add(h, stub, name);
    __cudaRegisterFatBinaryEnd(h);
    return h;
}

void program_register(void)
{
    const char *image = program_image ? program_image : TEST_IMAGE;
    void **h = __cudaRegisterFatBinary(program_make(*image ? image : NULL));
    program_add(h, stub_fill, "_Zfill");
    program_add(h, stub_nothing, "_Znothing");
    program_add(h, stub_trap, "_Ztrap");
    program_add(h, stub_unsupported, "_Zunsupported");
    if (program_streams) {
        program_add(h, stub_meet, "_Zmeet");
        program_add(h, stub_step, "_Zstep");
    }
    if (program_wide)
        program_add(h, stub_wide, "_Zwide");
    __cudaRegisterVar(h, (char *)shadow_counter, "counter", "counter", 0, sizeof shadow_counter, 0, 0);
    __cudaRegisterVar(h, (char *)shadow_konst, "konst", "konst", 0, sizeof shadow_konst, 1, 0);
    __cudaRegisterFatBinaryEnd(h);
    h = __cudaRegisterFatBinary(program_make(NULL));
    program_add(h, stub_foreign, program_foreign);
    __cudaRegisterVar(h, (char *)&shadow_foreign, "foreign", "foreign", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(h);
}
