/* The calls of the tables next to what NVIDIA's headers declare: a parameter too many, or of another type,
 * does not compile. */
#include <cublas_v2.h>
#include <cusolverDn.h>

#define MT_STATUS(handle)                                                                                    \
    _Generic((handle)0, cusolverDnHandle_t: (cusolverStatus_t)0, default: (cublasStatus_t)0)
#define MT_DECLARED(name, handle, ...)                                                                       \
    _Static_assert(                                                                                          \
        __builtin_types_compatible_p(__typeof__(name), __typeof__(MT_STATUS(handle))(handle, __VA_ARGS__)),  \
        #name);
#define MT_DECLARED_HALF(...) /* C++ only */
#include "declare.h"
