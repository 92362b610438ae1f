/* Error state of the CPU device: the last error of each thread, and kernel errors that persist until the
 * device is reset. */
#include "error.h"
#include "api/entry.h"
#include "trace/devices.h"
#include "base/report.h"
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static _Thread_local cudaError_t last;
static _Thread_local int launched;
static _Atomic int sticky[MT_DEVICES_MAX], later[MT_DEVICES_MAX]; /* by device */

cudaError_t mt_fail(cudaError_t e)
{
    if (e)
        last = e;
    return e;
}

void mt_fail_sticky(int device, cudaError_t e)
{
    int none = 0;
    atomic_compare_exchange_strong(&sticky[device], &none, (int)e);
}

void mt_fail_later(int device, cudaError_t e)
{
    later[device] = (int)e;
}

cudaError_t mt_fail_of(int device)
{
    return (cudaError_t)sticky[device];
}

cudaError_t mt_failed(void)
{
    cudaError_t e = mt_fail_of(mt_device_current());
    launched |= e != cudaSuccess;
    return mt_fail(e);
}

cudaError_t mt_failed_sync(void)
{
    cudaError_t e = mt_failed();
    if (e)
        return e;
    e = (cudaError_t)atomic_exchange(&later[mt_device_current()], 0);
    launched |= e != cudaSuccess;
    return mt_fail(e);
}

int mt_fail_launched(void)
{
    int was = launched;
    launched = 0;
    return was;
}

void mt_fail_reset(int device)
{
    sticky[device] = later[device] = 0;
}

cudaError_t impl_cudaGetLastError(void)
{
    cudaError_t e = last ? last : mt_fail_of(mt_device_current());
    last = cudaSuccess;
    return e;
}

cudaError_t impl_cudaPeekAtLastError(void)
{
    return last ? last : mt_fail_of(mt_device_current());
}

int mt_error_hold(void)
{
    return MT_NEXT(cudaPeekAtLastError)() == cudaSuccess;
}

void mt_error_release(int clean)
{
    if (clean)
        MT_NEXT(cudaGetLastError)();
}

/* ---- names ---- */

static const struct {
    int code;
    const char *name;
} names[] = {
#define MT_ERROR(code, name) {code, #name},
#include "errors.inc"
};
enum { NAMES = sizeof names / sizeof *names };

static const struct {
    int code;
    const char *text;
} texts[] = {
#define MT_TEXT(name, text) {name, text},
#include "error.def"
};

static char spelled[NAMES][64]; /* "cudaErrorStubLibrary" -> "stub library" */

static void error_spell(void)
{
    for (int i = 0; i < NAMES; i++) {
        const char *s = names[i].name;
        char *out = spelled[i], *end = out + sizeof spelled[i] - 3;
        for (s += strncmp(s, "cudaError", 9) ? 4 : 9; *s && out < end; s++) {
            if (isupper((unsigned char)*s) && out > spelled[i] && islower((unsigned char)s[-1]))
                *out++ = ' ';
            *out++ = (char)tolower((unsigned char)*s);
        }
    }
}

static int error_find(cudaError_t e)
{
    for (int i = 0; i < NAMES; i++)
        if (names[i].code == (int)e)
            return i;
    return -1;
}

const char *impl_cudaGetErrorName(cudaError_t e)
{
    int i = error_find(e);
    return i < 0 ? "unrecognized error code" : names[i].name;
}

const char *impl_cudaGetErrorString(cudaError_t e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].code == (int)e)
            return texts[i].text;
    int i = error_find(e);
    if (i < 0)
        return "unrecognized error code";
    pthread_once(&once, error_spell);
    return spelled[i];
}
