/* Version of the interface between compiled programs and libmemtrace.so; raised when older objects no longer
 * fit. */
#ifndef MT_UTILS_VERSION_H
#define MT_UTILS_VERSION_H
#define MT_UTILS_VERSION 1u
#ifdef __cplusplus
extern "C"
#endif
    /* Returns MT_UTILS_VERSION of the running libmemtrace.so. */
    unsigned
    mt_runtime_version(void);
#endif
