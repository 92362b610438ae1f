/* Calls functions of CUDA 12 as that version declares them, by the version node of its library
 * (fake_cudart.c). */
#include <stdio.h>
#include <string.h>

struct pointer { /* 24 bytes; 88 from CUDA 13 on */
    int type, device;
    void *on_device, *on_host;
};
struct properties { /* 1,032 bytes; the order is another one from CUDA 13 on */
    char name[256], uuid[16], luid[8];
    unsigned mask;
    size_t memory, shared;
    int registers, warp;
    size_t pitch;
    int threads, block[3], grid[3], clock;
    size_t constant;
    int major, minor;
    char more[1032 - 368];
};
int cudaMallocManaged(void **p, size_t n, unsigned flags);
int cudaPointerGetAttributes(struct pointer *p, const void *at);
int cudaGetDeviceProperties_v2(struct properties *p, int device);
int cudaThreadSynchronize(void);
int cudaSetDoubleForHost(double *d);
int cudaMemAdvise(const void *p, size_t n, int what, int device);
int cudaDeviceGetAttribute(int *out, int what, int device);

int main(void)
{
    struct {
        struct pointer at;
        unsigned char after[256];
    } a;
    struct {
        struct properties is;
        unsigned char after[256];
    } p;
    void *m;
    int clock = 0, major = 0, minor = 0, bad = 0;
    _Static_assert(sizeof(struct pointer) == 24 && sizeof(struct properties) == 1032, "as in CUDA 12");
    memset(&a, 0x5a, sizeof a);
    memset(&p, 0x5a, sizeof p);
    printf("malloc %d\n", cudaMallocManaged(&m, 64, 1));
    printf("attributes %d\n", cudaPointerGetAttributes(&a.at, (char *)m + 8));
    printf("properties %d\n", cudaGetDeviceProperties_v2(&p.is, 0));
    printf("synchronize %d advise %d\n", cudaThreadSynchronize(), cudaMemAdvise(m, 64, 3, -1));
    cudaDeviceGetAttribute(&clock, 13, 0);
    cudaDeviceGetAttribute(&major, 75, 0);
    cudaDeviceGetAttribute(&minor, 76, 0);
    for (unsigned i = 0; i < 256; i++)
        bad += a.after[i] != 0x5a || p.after[i] != 0x5a;
    printf("type %d same %d beyond %d\n", a.at.type, a.at.on_device == (char *)m + 8, bad);
    printf("warp %d clock %d major %d minor %d\n", p.is.warp, p.is.clock == clock, p.is.major == major,
           p.is.minor == minor);
    printf("gone %d %d\n", cudaSetDoubleForHost(NULL), cudaSetDoubleForHost(NULL));
    return 0;
}
