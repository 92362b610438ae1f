/* Contexts that the program made with the driver (cuCtxCreate) have memory of their own: kernels in one
 * cannot reach our rings, which are in the device's primary context, and nobody tells us when one ends. So
 * what is launched there runs without a trace. */
#include "cuda.h"
#include "device.h"

static void *_Atomic primary[MT_GPU_ORDINALS]; /* as it was last */

int mt_gpu_is_primary(const struct mt_cuda *cu, int ordinal)
{
    void *current = NULL, *its = NULL;
    unsigned flags;
    int active = 1;
    if (!cu->CurrentContext || !cu->RetainPrimary || !cu->ReleasePrimary || cu->CurrentContext(&current))
        return 1;
    if (!current || current == primary[ordinal]) /* none yet: the runtime takes the primary one */
        return 1;
    if (cu->PrimaryState && !cu->PrimaryState(ordinal, &flags, &active) && !active)
        return 0;
    if (cu->RetainPrimary(&its, ordinal))
        return 1;
    cu->ReleasePrimary(ordinal);
    primary[ordinal] = its;
    return current == its;
}

void mt_gpu_forget_primary(int ordinal)
{
    primary[ordinal] = NULL;
}
