/* Device variables on the CPU device. */
#include "api/entry.h"
#include "api/tables/error.h"
#include "module.h"
#include "base/report.h"

/* A variable whose file has no CPU image: there is no memory for it. */
static cudaError_t symbol_find(const void *symbol, struct mt_variable **v)
{
    *v = mt_variable_find(symbol);
    if (!*v)
        return cudaErrorInvalidSymbol;
    if ((*v)->address)
        return cudaSuccess;
    if (!(*v)->module->image) {
        mt_module_complain((*v)->module, (*v)->name);
        return cudaErrorNoKernelImageForDevice;
    }
    return cudaErrorInvalidSymbol;
}

cudaError_t impl_cudaGetSymbolAddress(void **out, const void *symbol)
{
    struct mt_variable *v;
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = symbol_find(symbol, &v);
    if (!e && !(*out = mt_variable_address(v)))
        e = cudaErrorMemoryAllocation;
    return mt_fail(e);
}

cudaError_t impl_cudaGetSymbolSize(size_t *out, const void *symbol)
{
    struct mt_variable *v;
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = symbol_find(symbol, &v);
    if (!e)
        *out = v->size;
    return mt_fail(e);
}
