/* The driver's log of errors, on the CPU device: nothing is in it, for memtrace says on stderr what is wrong.
 * Programs may ask to be called for what comes, and never are. */
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/fork.h"
#include <pthread.h>
#include <stdlib.h>

#if CUDART_VERSION >= 12090
struct CUlogsCallbackEntry_st {
    struct CUlogsCallbackEntry_st *next;
};
static cudaLogsCallbackHandle asked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);

cudaError_t impl_cudaLogsRegisterCallback(cudaLogsCallback_t callback, void *data,
                                          cudaLogsCallbackHandle *out)
{
    cudaLogsCallbackHandle h = callback && out ? malloc(sizeof *h) : NULL;
    if (!h)
        return mt_fail(callback && out ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    h->next = asked;
    asked = h;
    pthread_mutex_unlock(&lock);
    *out = h;
    return cudaSuccess;
}

cudaError_t impl_cudaLogsUnregisterCallback(cudaLogsCallbackHandle callback)
{
    pthread_mutex_lock(&lock);
    cudaLogsCallbackHandle *at = &asked, found;
    while (*at && *at != callback)
        at = &(*at)->next;
    if ((found = *at) != NULL)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    free(found);
    return found ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
}
#endif
