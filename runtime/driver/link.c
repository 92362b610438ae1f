/* cuLink* on the CPU device: several pieces of device code become one image when they are loaded. */
#define _GNU_SOURCE
#include "driver.h"
#include "link.h"
#include "api/device/device.h"
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Code in a fatbin of its own: several of them may follow each other. */
struct link_fatbin {
    uint32_t magic;
    uint16_t version, header_size; /* 1; of these four */
    uint64_t size;                 /* of what follows them */
    uint16_t kind, entry_version;  /* 1 PTX, 2 machine code; 0x101 */
    uint32_t entry_header_size;    /* from `kind` on */
    uint64_t entry_size;
    uint32_t unused[12];
    unsigned char code[];
};
_Static_assert(offsetof(struct link_fatbin, code) == 16 + 64, "no gaps");

struct mt_linked_code *mt_link_new(void)
{
    struct mt_linked_code *code = calloc(1, sizeof *code);
    if (code) {
        memcpy(code->magic, MT_LINKED_MAGIC, sizeof code->magic);
        code->bytes = sizeof *code;
    }
    return code;
}

int mt_link_add(struct mt_linked_code **code, enum mt_link_kind kind, const void *data, size_t bytes)
{
    int whole = kind == MT_LINK_FATBIN;
    size_t room = ((whole ? bytes : bytes + 1) + 7) & ~(size_t)7; /* PTX ends with NUL */
    size_t more = room + (whole ? 0 : sizeof(struct link_fatbin));
    struct mt_linked_code *grown = realloc(*code, (*code)->bytes + more);
    if (!grown)
        return -1;
    *code = grown;
    struct link_fatbin *f = (void *)((char *)grown + grown->bytes);
    memset(f, 0, more);
    grown->bytes += more;
    if (!whole)
        *f = (struct link_fatbin){.magic = 0xba55ed50u,
                                  .version = 1,
                                  .header_size = 16,
                                  .size = 64 + room,
                                  .kind = kind == MT_LINK_PTX ? 1 : 2,
                                  .entry_version = 0x101,
                                  .entry_header_size = 64,
                                  .entry_size = room};
    memcpy(whole ? (void *)f : f->code, data, bytes);
    return 0;
}

/* ---- cuLink* ---- */

struct CUlinkState_st {
    struct mt_linked_code *code;
    int machine; /* not only PTX is in it */
    unsigned n;  /* what the program asked to be told: its own, and there until the end */
    CUjit_option *options;
    void **values;
};

CUresult drv_cuLinkCreate_v2(unsigned n, CUjit_option *options, void **values, CUlinkState *out)
{
    struct CUlinkState_st *s = out ? calloc(1, sizeof *s) : NULL;
    if (!s || !(s->code = mt_link_new())) {
        free(s);
        return out ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    s->n = n;
    s->options = options;
    s->values = values;
    *out = s;
    return CUDA_SUCCESS;
}

/* The real one finds errors in the code when it gets it; so does this, by loading it once, which the cache
 * keeps. */
static CUresult link_try(CUlinkState s, const struct mt_linked_code *code, int machine)
{
    struct mt_module *m = NULL;
    char *why = NULL;
    enum mt_library_error e = mt_library_load(&m, &(struct mt_device_code){code, code->bytes}, 1, &why);
    if (e) /* else the room for a log stays as it is, for what comes */
        mt_driver_log(s->n, s->options, s->values, why);
    free(why);
    if (e)
        return e == MT_LIBRARY_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY
               : machine              ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                      : CUDA_ERROR_INVALID_PTX;
    mt_library_unload(m);
    return CUDA_SUCCESS;
}

static CUresult link_take(CUlinkState s, CUjitInputType type, const void *data, size_t bytes)
{
    enum mt_link_kind kind = type == CU_JIT_INPUT_PTX     ? MT_LINK_PTX
                             : type == CU_JIT_INPUT_CUBIN ? MT_LINK_CUBIN
                                                          : MT_LINK_FATBIN;
    /* What asks for functions of other pieces can only be tried with them. */
    int whole = kind == MT_LINK_PTX && !memmem(data, bytes, ".extern", 7);
    struct mt_linked_code *alone = whole ? mt_link_new() : NULL;
    CUresult e = CUDA_SUCCESS;
    if (alone && !mt_link_add(&alone, kind, data, bytes))
        e = link_try(s, alone, 0);
    free(alone);
    if (e)
        return e;
    s->machine |= kind != MT_LINK_PTX;
    return mt_link_add(&s->code, kind, data, bytes) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static int link_takes(CUjitInputType type)
{
    return type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_CUBIN || type == CU_JIT_INPUT_FATBINARY;
}

CUresult drv_cuLinkAddData_v2(CUlinkState s, CUjitInputType type, void *data, size_t bytes, const char *name,
                              unsigned n, CUjit_option *options, void **values)
{
    if (!s || !data || !bytes)
        return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!link_takes(type))
        return CUDA_ERROR_NOT_SUPPORTED;
    return link_take(s, type, data, type == CU_JIT_INPUT_PTX ? strnlen(data, bytes) : bytes);
}

CUresult drv_cuLinkAddFile_v2(CUlinkState s, CUjitInputType type, const char *path, unsigned n,
                              CUjit_option *options, void **values)
{
    size_t bytes = 0;
    if (!s || !path)
        return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!link_takes(type))
        return CUDA_ERROR_NOT_SUPPORTED;
    void *data = mt_library_file(path, &bytes);
    if (!data)
        return errno == ENOENT ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_IMAGE;
    CUresult e = link_take(s, type, data, bytes);
    free(data);
    return e;
}

CUresult drv_cuLinkComplete(CUlinkState s, void **out, size_t *bytes)
{
    if (!s || !out)
        return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (s->code->bytes == sizeof *s->code)
        return CUDA_ERROR_INVALID_IMAGE;
    CUresult e = link_try(s, s->code, s->machine);
    if (e)
        return e;
    *out = s->code;
    if (bytes)
        *bytes = s->code->bytes;
    return CUDA_SUCCESS;
}

CUresult drv_cuLinkDestroy(CUlinkState s)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    free(s->code);
    free(s);
    return CUDA_SUCCESS;
}
