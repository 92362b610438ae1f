#pragma memtrace off
__device__ __forceinline__ void from_region_header(int *p) { p[3] = 1; }
