/* Device library calls: printf, the heap, assertions, and the device runtime that cooperative groups use. */
#include "builtin.h"

MT_BUILTIN int32_t mtb_vprintf(const char *format, const void *args)
{
    return mt_cpu_vprintf(format, args);
}
MT_BUILTIN void *mtb_malloc(uint64_t bytes)
{
    return mt_cpu_malloc(bytes);
}
MT_BUILTIN void mtb_free(void *p)
{
    mt_cpu_free(p);
}
MT_BUILTIN void mtb___assertfail(const char *message, const char *file, uint32_t line, const char *function,
                                 uint64_t char_size)
{
    mt_cpu_assertfail(message, file, line, function);
}
MT_BUILTIN void mtb___assert_fail(const char *message, const char *file, uint32_t line, const char *function)
{
    mt_cpu_assertfail(message, file, line, function);
}

/* Questions of libdevice about the compilation that were not answered at compile time: no flushing, exact
 * division and square roots. */
MT_BUILTIN int32_t mtb___nvvm_reflect(const char *what)
{
    return !__builtin_strcmp(what, "__CUDA_PREC_DIV") || !__builtin_strcmp(what, "__CUDA_PREC_SQRT");
}
MT_BUILTIN int32_t mtb_nvvm_reflect(const char *what)
{
    return mtb___nvvm_reflect(what);
}
