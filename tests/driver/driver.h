/* What the tests of the driver API share. Kernels are those of kernels.ptx. */
#ifndef TESTS_DRIVER_H
#define TESTS_DRIVER_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)
extern CUcontext driver_context;
CUdeviceptr driver_alloc(size_t bytes);

/* test_code.c */
void driver_bad_code(void **state);
void driver_conditional(void **state);
void driver_bad_names(void **state);
void driver_freed(void **state);
void driver_grid(void **state);
void driver_link(void **state);
void driver_pairs(void **state);
void driver_newer(void **state);
void driver_many_threads(void **state);
void driver_libraries(void **state);
void driver_runtime_libraries(void **state);
/* test_streams.c */
void driver_stream_memory(void **state);
#endif
