/* Error state of the CPU device: the last error of each thread, and errors of kernels that stay until the
 * device is reset. */
#ifndef MT_API_ERROR_H
#define MT_API_ERROR_H
#include <cuda_runtime_api.h>

/* Keeps `e` as the thread's last error (cudaSuccess changes nothing) and returns it. */
cudaError_t mt_fail(cudaError_t e);
/* A kernel of `device` went wrong: every later call returns `e` where that is current, until cudaDeviceReset.
 */
void mt_fail_sticky(int device, cudaError_t e);
/* A launch failed without harm: the next synchronising call there returns `e`, once. */
void mt_fail_later(int device, cudaError_t e);
/* The error that lasts. */
cudaError_t mt_fail_of(int device);
/* Error left by kernels of the current device (and made the thread's last error), or cudaSuccess. Every call
 * on the device starts with it. */
cudaError_t mt_failed(void);
/* The same for synchronising calls, which also take what mt_fail_later left. */
cudaError_t mt_failed_sync(void);
/* 1: a launch's error has been returned to this thread since the last time that this was asked. */
int mt_fail_launched(void);
void mt_fail_reset(int device);

#define MT_RETURN_IF_FAILED()                                                                                \
    do {                                                                                                     \
        cudaError_t failed_ = mt_failed();                                                                   \
        if (failed_)                                                                                         \
            return failed_;                                                                                  \
    } while (0)
/* Around calls of our own: an error of theirs is not one of the program's. mt_error_hold: 1 when the program
 * has no error to ask for; mt_error_release forgets what has come since. */
int mt_error_hold(void);
void mt_error_release(int clean);
#endif
