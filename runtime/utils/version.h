/* Version of what compiled programs and libmemtrace.so agree on;
 * goes up when an older object no longer fits. */
#ifndef MT_UTILS_VERSION_H
#define MT_UTILS_VERSION_H
#define MT_UTILS_VERSION 1u
#ifdef __cplusplus
extern "C"
#endif
    /* MT_UTILS_VERSION of the libmemtrace.so that runs. */
    unsigned
    mt_runtime_version(void);
#endif
