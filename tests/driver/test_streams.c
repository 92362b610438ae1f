/* Memory operations of streams by the driver API on the CPU device: writes and waits. */
#include "driver.h"

static unsigned driver_word(CUdeviceptr p)
{
    unsigned word;
    OK(cuMemcpyDtoH(&word, p, sizeof word));
    return word;
}

/* The value is there after `stream` has come to the end of what waits for the word at p, and not before. */
static void driver_wait(CUstream stream, CUstream other, CUdeviceptr p, unsigned start, unsigned value,
                        unsigned flags, unsigned end)
{
    OK(cuMemsetD32(p, start, 1));
    OK(cuMemsetD32(p + 64, 0, 1));
    OK(cuStreamWaitValue32(stream, p, value, flags));
    OK(cuMemsetD32Async(p + 64, 1, 1, stream));
    if (start != end) {
        assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        assert_int_equal(*(unsigned *)(uintptr_t)(p + 64), 0); /* the memory is the host's */
        OK(cuStreamWriteValue32(other, p, end, 0));
    }
    OK(cuStreamSynchronize(stream));
    assert_int_equal(driver_word(p + 64), 1);
}

void driver_stream_memory(void **state)
{
    CUstream stream, other;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p = driver_alloc(128);
    uint64_t wide = 0;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    driver_wait(stream, other, p, 4, 5, CU_STREAM_WAIT_VALUE_GEQ, 6);
    driver_wait(stream, other, p, 1, 0xffffffff, CU_STREAM_WAIT_VALUE_GEQ, 1); /* two steps on */
    driver_wait(stream, other, p, 0xffffffff, 1, CU_STREAM_WAIT_VALUE_GEQ, 2);
    driver_wait(stream, other, p, 6, 5, CU_STREAM_WAIT_VALUE_EQ, 5);
    driver_wait(stream, other, p, 3, 12, CU_STREAM_WAIT_VALUE_AND, 8);
    driver_wait(stream, other, p, 0xfffffffe, 1, CU_STREAM_WAIT_VALUE_NOR, 0xfffffffc);
    CUstreamBatchMemOpParams ops[2] = {
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64, .address = p + 8, .value64 = 1ull << 40}},
        {.writeValue = {
             .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = p + 16, .value64 = 3ull << 40}}};
    OK(cuMemsetD32(p, 0, 32));
    OK(cuStreamBatchMemOp(stream, 2, ops, 0));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue64(other, p + 8, 2ull << 40, 0));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(&wide, p + 16, 8));
    assert_true(wide == 3ull << 40);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamWriteValue32(stream, p, 77, 0));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        OK(cuMemsetD32(p, 0, 1));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        assert_int_equal(driver_word(p), 77);
    }
    OK(cuGraphExecDestroy(exec));
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                                         .hUploadStream = stream,
                                         .hErrNode_out = (CUgraphNode)&how,
                                         .result_out = CUDA_GRAPH_INSTANTIATE_ERROR};
    OK(cuGraphInstantiateWithParams(&exec, graph, &how));
    assert_true(how.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS && !how.hErrNode_out);
    OK(cuMemsetD32(p, 0, 1));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(driver_word(p), 77);
    assert_int_equal(cuGraphInstantiateWithParams(&exec, graph, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWriteValue32(stream, p + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWriteValue64(stream, p + 4, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWaitValue32(stream, 64, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWaitValue32(stream, p, 0, CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(other));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(p));
}
