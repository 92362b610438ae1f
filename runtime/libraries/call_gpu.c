/* A call of cuBLAS or cuSOLVER on a GPU: NVIDIA's function computes it, and it is noted before what that will
 * touch. What the call's arguments do not say (a beta on the device, the pointers of a batch) is fetched from
 * there. */
#include "call.h"
#include "library.h"
#include <stdlib.h>
#include <string.h>

#define FOUR(a, i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define N4 int64_t, int64_t, int64_t, int64_t
typedef int real_function(void *, N4, N4, N4, N4, N4, N4);

/* All parameters are integers or pointers, and more than the function has do no harm. */
static int call_gpu_run(struct mt_library_call *c)
{
    const struct mt_blas *b = (const struct mt_blas *)c;
    const int64_t *a = b->a;
    return ((real_function *)b->real)(b->handle, FOUR(a, 0), FOUR(a, 4), FOUR(a, 8), FOUR(a, 12), FOUR(a, 16),
                                      FOUR(a, 20));
}

/* What of the handle a call depends on. 0, or -1: it is not known. */
static int call_gpu_ask(void *handle, const struct mt_blas_function *f, void **stream, int *device)
{
    int solver = strcmp(f->library, "cusolver") == 0;
    int (*of_stream)(void *, void **) = (int (*)(void *, void **))mt_lib_real(
        f->library, solver ? "cusolverDnGetStream" : "cublasGetStream_v2");
    int (*of_mode)(void *, int *) =
        solver ? NULL : (int (*)(void *, int *))mt_lib_real(f->library, "cublasGetPointerMode_v2");
    *device = 0;
    return !of_stream || of_stream(handle, stream) || (of_mode && of_mode(handle, device)) ? -1 : 0;
}

/* 0, or -1: it cannot be known. */
static int call_gpu_fetch(struct mt_blas *b, void *stream)
{
    const char *kinds = b->f->row->kinds;
    int rc = 0;
    for (int i = 0; kinds[i] && !rc; i++) {
        const void *at = (const void *)(intptr_t)b->a[i];
        size_t bytes = (size_t)mt_blas_batches(b) * sizeof(void *);
        if (b->device && strchr("AR", kinds[i]))
            rc = __mt_library_fetch(stream, b->value[i], at, mt_blas_scalar_bytes(b, i));
        if (strchr("MQ", kinds[i]) && !(b->arrays[i] = malloc(bytes)))
            rc = -1;
        else if (strchr("MQ", kinds[i]))
            rc = __mt_library_fetch(stream, b->arrays[i], at, bytes);
    }
    b->fetched = !rc;
    return rc;
}

int mt_blas_call_gpu(void *handle, const struct mt_blas_function *f, const char *exported, int wide,
                     const int64_t *arguments)
{
    struct mt_blas b;
    void *stream = NULL;
    int device, empty = 0;
    int known =
        !call_gpu_ask(handle, f, &stream, &device) && !mt_blas_make(&b, f, wide, device, arguments, &empty);
    if (!known) {
        b = (struct mt_blas){.f = f};
        memcpy(b.a, arguments, strlen(f->row->kinds) * sizeof *arguments);
    }
    b.handle = handle;
    b.real = mt_lib_real(f->library, exported);
    b.call.run = call_gpu_run;
    known = known && (empty || !call_gpu_fetch(&b, stream));
    int status = known && !empty ? __mt_library_submit(stream, &b.call) : __mt_library_forward(&b.call);
    if (!status && !known)
        __mt_library_miss(f->name);
    for (int i = 0; i < MT_BLAS_ARGS; i++)
        free(b.arrays[i]);
    return status;
}
