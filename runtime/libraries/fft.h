/* Plans of cuFFT. */
#ifndef MT_LIBRARIES_FFT_H
#define MT_LIBRARIES_FFT_H
#include <stddef.h>
#include <stdint.h>

enum {
    MT_FFT_SUCCESS = 0,
    MT_FFT_INVALID_PLAN = 1,
    MT_FFT_ALLOC_FAILED = 2,
    MT_FFT_INVALID_TYPE = 3,
    MT_FFT_INVALID_VALUE = 4,
    MT_FFT_EXEC_FAILED = 6,
    MT_FFT_INVALID_SIZE = 8,
    MT_FFT_NOT_SUPPORTED = 16,
};

/* A cufftType is one of these in its low four bits; the bit 0x40 means double. */
enum { MT_FFT_C2C = 9, MT_FFT_R2C = 10, MT_FFT_C2R = 12 };

struct mt_fft_layout {
    int embed[3], stride;
    int64_t dist;
};

struct mt_fft_plan {
    int made, type, rank, n[3], own_layout;
    int64_t batch;
    struct mt_fft_layout in, out;
    void *stream;
};

/* The transform of `type` that was asked for by `name`; p NULL: no such plan. A status. */
int mt_fft_exec(const struct mt_fft_plan *p, const char *name, int type, const void *in, void *out, int sign);
/* The same on a GPU, by NVIDIA's plan. */
int mt_fft_exec_gpu(int handle, const struct mt_fft_plan *p, const char *name, const void *in, void *out,
                    int sign);
#endif
