/* Shared by the API tests: cmocka, CUDA's header, and expectations by error name. */
#ifndef TEST_RUNTIME_API_H
#define TEST_RUNTIME_API_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <cuda_runtime_api.h>

/* Expects a code, and clears the last error after checking that it is kept there. */
#define EXPECT(code, call)                                                                                   \
    do {                                                                                                     \
        cudaError_t got_ = (call), want_ = (code);                                                           \
        if (got_ != want_)                                                                                   \
            fail_msg("%s: %s instead of %s", #call, cudaGetErrorName(got_), cudaGetErrorName(want_));        \
        if (want_ && want_ != cudaErrorNotReady)                                                             \
            assert_int_equal(cudaGetLastError(), want_);                                                     \
    } while (0)
#define OK(call) EXPECT(cudaSuccess, call)
#endif
