/* cuLink* on the CPU device: several pieces of device code become one image when they are loaded. */
#include "link.h"
#include "api/library.h"
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINK_MAGIC "\177MTLINK" /* 8 bytes with its NUL; no PTX, fatbin or ELF begins so */

struct CUlinkState_st {
    char magic[8];
    size_t n;
    struct mt_device_code *part;
};

const struct mt_device_code *mt_link_parts(const void *image, size_t *n)
{
    const struct CUlinkState_st *s = image;
    if (strncmp(image, LINK_MAGIC, sizeof s->magic) != 0)
        return NULL;
    *n = s->n;
    return s->part;
}

CUresult DRV(cuLinkCreate_v2)(unsigned n, CUjit_option *options, void **values, CUlinkState *out)
{
    struct CUlinkState_st *s = out ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return out ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    memcpy(s->magic, LINK_MAGIC, sizeof s->magic);
    *out = s;
    return CUDA_SUCCESS;
}

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

static CUresult link_take(CUlinkState s, CUjitInputType type, const void *data, size_t bytes)
{
    size_t room = (bytes + 8) & ~(size_t)7; /* PTX ends with NUL */
    struct link_fatbin *f = calloc(1, sizeof *f + room);
    struct mt_device_code *grown = f ? realloc(s->part, (s->n + 1) * sizeof *grown) : NULL;
    if (grown)
        s->part = grown;
    if (!grown) {
        free(f);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (type == CU_JIT_INPUT_FATBINARY) {
        memcpy(f, data, bytes);
        grown[s->n++] = (struct mt_device_code){f, bytes};
        return CUDA_SUCCESS;
    }
    *f = (struct link_fatbin){.magic = 0xba55ed50u,
                              .version = 1,
                              .header_size = 16,
                              .size = 64 + room,
                              .kind = type == CU_JIT_INPUT_PTX ? 1 : 2,
                              .entry_version = 0x101,
                              .entry_header_size = 64,
                              .entry_size = room};
    memcpy(f->code, data, bytes);
    grown[s->n++] = (struct mt_device_code){f, sizeof *f + room};
    return CUDA_SUCCESS;
}

static int link_takes(CUjitInputType type)
{
    return type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_CUBIN || type == CU_JIT_INPUT_FATBINARY;
}

CUresult DRV(cuLinkAddData_v2)(CUlinkState s, CUjitInputType type, void *data, size_t bytes, const char *name,
                               unsigned n, CUjit_option *options, void **values)
{
    if (!s || !data || !bytes)
        return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!link_takes(type))
        return CUDA_ERROR_NOT_SUPPORTED;
    return link_take(s, type, data, type == CU_JIT_INPUT_PTX ? strnlen(data, bytes) : bytes);
}

CUresult DRV(cuLinkAddFile_v2)(CUlinkState s, CUjitInputType type, const char *path, unsigned n,
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

/* The real one finds errors in the code now; so does this, by loading it once, which the cache keeps. */
CUresult DRV(cuLinkComplete)(CUlinkState s, void **out, size_t *bytes)
{
    struct mt_module *m = NULL;
    char *why = NULL;
    if (!s || !out)
        return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!s->n)
        return CUDA_ERROR_INVALID_IMAGE;
    enum mt_library_error e = mt_library_load(&m, s->part, s->n, &why);
    free(why);
    if (e)
        return e == MT_LIBRARY_PTX ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_NO_BINARY_FOR_GPU;
    mt_library_unload(m);
    *out = s;
    if (bytes)
        *bytes = sizeof *s;
    return CUDA_SUCCESS;
}

CUresult DRV(cuLinkDestroy)(CUlinkState s)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < s->n; i++)
        free((void *)(uintptr_t)s->part[i].data);
    free(s->part);
    free(s);
    return CUDA_SUCCESS;
}
