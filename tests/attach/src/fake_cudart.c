/* What older.c is linked to: names under the node libcudart.so.12, all of which fail. */
#define FAKE(name)                                                                                           \
    int name(void)                                                                                           \
    {                                                                                                        \
        return 999;                                                                                          \
    }
FAKE(cudaMallocManaged)
FAKE(cudaPointerGetAttributes)
FAKE(cudaGetDeviceProperties_v2)
FAKE(cudaThreadSynchronize)
FAKE(cudaSetDoubleForHost)
FAKE(cudaMemAdvise)
FAKE(cudaDeviceGetAttribute)
