/* Preloaded into a program that mt-cc has compiled: writes to the file $BITS a line with a hash of all bytes
 * that each copy brings back from the device, and of managed memory when it is freed, in the program's order.
 * Two runs that compute the same bits leave the same file. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 4096 };
static struct {
    const void *at;
    size_t bytes;
} managed[BLOCKS];

static void bits_tell(const char *what, const void *at, size_t bytes)
{
    const unsigned char *p = at;
    unsigned long long hash = 0xcbf29ce484222325; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3;
    FILE *out = getenv("BITS") ? fopen(getenv("BITS"), "a") : NULL;
    if (out) {
        fprintf(out, "%s %zu %016llx\n", what, bytes, hash);
        fclose(out);
    }
}

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static int comes_back(const void *to, enum cudaMemcpyKind kind)
{
    struct cudaPointerAttributes a;
    if (kind != cudaMemcpyDefault)
        return kind == cudaMemcpyDeviceToHost;
    return cudaPointerGetAttributes(&a, to) == cudaSuccess && a.type != cudaMemoryTypeDevice;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t e = NEXT(cudaMemcpy)(to, from, bytes, kind);
    if (!e && comes_back(to, kind))
        bits_tell("copy", to, bytes);
    return e;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusActive;
    cudaError_t e = NEXT(cudaMemcpyAsync)(to, from, bytes, kind, s);
    if (!e && comes_back(to, kind) && !cudaStreamIsCapturing(s, &capture) &&
        capture == cudaStreamCaptureStatusNone && !cudaStreamSynchronize(s))
        bits_tell("copy", to, bytes);
    return e;
}

cudaError_t cudaMemcpy2D(void *to, size_t pitch, const void *from, size_t from_pitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind)
{
    cudaError_t e = NEXT(cudaMemcpy2D)(to, pitch, from, from_pitch, width, height, kind);
    for (size_t row = 0; !e && comes_back(to, kind) && row < height; row++)
        bits_tell("row", (char *)to + row * pitch, width);
    return e;
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    cudaError_t e = NEXT(cudaMemcpyFromSymbol)(to, symbol, bytes, offset, kind);
    if (!e && comes_back(to, kind))
        bits_tell("symbol", to, bytes);
    return e;
}

cudaError_t cudaMallocManaged(void **at, size_t bytes, unsigned flags)
{
    cudaError_t e = NEXT(cudaMallocManaged)(at, bytes, flags);
    for (int i = 0; !e && i < BLOCKS; i++)
        if (!managed[i].at) {
            managed[i].at = *at;
            managed[i].bytes = bytes;
            break;
        }
    return e;
}

cudaError_t cudaFree(void *at)
{
    for (int i = 0; at && i < BLOCKS; i++)
        if (managed[i].at == at) {
            cudaDeviceSynchronize();
            bits_tell("managed", at, managed[i].bytes);
            managed[i].at = NULL;
        }
    return NEXT(cudaFree)(at);
}
