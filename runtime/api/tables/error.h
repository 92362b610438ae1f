/* Error state of the CPU device: the last error of each thread, and kernel errors that persist until the
 * device is reset. */
#ifndef MT_API_ERROR_H
#define MT_API_ERROR_H
#include <cuda_runtime_api.h>

/* Sets the thread's last error (unless `e` is cudaSuccess) and returns `e`. */
cudaError_t mt_fail(cudaError_t e);
/* Makes every later call return `e` where `device` is current, until cudaDeviceReset, after a kernel failed.
 */
void mt_fail_sticky(int device, cudaError_t e);
/* Makes the next synchronising call on the device return `e`, once, after a launch failed without harm. */
void mt_fail_later(int device, cudaError_t e);
/* Returns the persistent error of a device. */
cudaError_t mt_fail_of(int device);
/* Returns the persistent error of the current device, now also the thread's last error, or cudaSuccess. Every
 * call on the device starts with it. */
cudaError_t mt_failed(void);
/* Returns the error for synchronising calls, which also take that of mt_fail_later. */
cudaError_t mt_failed_sync(void);
/* Returns 1 if a launch's error has been returned to this thread since the last query. */
int mt_fail_launched(void);
void mt_fail_reset(int device);

#define MT_RETURN_IF_FAILED()                                                                                \
    do {                                                                                                     \
        cudaError_t failed_ = mt_failed();                                                                   \
        if (failed_)                                                                                         \
            return failed_;                                                                                  \
    } while (0)
/* Bracket calls of our own, whose errors are not the program's. mt_error_hold returns 1 if the program has no
 * last error; mt_error_release then clears errors set since. */
int mt_error_hold(void);
void mt_error_release(int clean);
#endif
