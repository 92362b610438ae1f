/* Graphs on the CPU device: what is in a graph, what its launches do and leave in the
 * trace, and CUDA's errors. */
#define _GNU_SOURCE
#include "graph.h"

/* What launches of a kernel node ask for, changed and copied. */
TEST(kernel_attributes)
{
    unsigned *p = words(4);
    cudaGraph_t g;
    cudaLaunchAttributeValue v = {.cooperative = 1}, got;
    OK(cudaGraphCreate(&g, 0));
    cudaGraphNode_t zero = add_zero(g, NULL, p), a = add_step(g, zero, p, 0), b = add_step(g, a, p, 1);
    OK(cudaGraphKernelNodeSetAttribute(b, cudaLaunchAttributeCooperative, &v));
    OK(cudaGraphKernelNodeGetAttribute(a, cudaLaunchAttributeCooperative, &got));
    WANT(got.cooperative == 0);
    OK(cudaGraphKernelNodeCopyAttributes(a, b));
    OK(cudaGraphKernelNodeGetAttribute(a, cudaLaunchAttributeCooperative, &got));
    WANT(got.cooperative == 1);
    EXPECT(cudaErrorInvalidValue, cudaGraphKernelNodeSetAttribute(zero, cudaLaunchAttributeCooperative, &v));
    EXPECT(cudaErrorInvalidValue, cudaGraphKernelNodeSetAttribute(a, cudaLaunchAttributeCooperative, NULL));
    OK(cudaGraphLaunch(ready(g), stream())); /* with its arguments */
    OK(cudaDeviceSynchronize());
    WANT(p[0] == 2 && p[1] == 0);
}

TEST(explicit_graph)
{
    unsigned *p = words(8), *copy = words(2), calls = 0;
    cudaGraph_t g;
    cudaGraphNode_t copying, calling, joint, found[8], from[8], to[8];
    enum cudaGraphNodeType type;
    size_t n;
    EXPECT(cudaErrorInvalidValue, cudaGraphCreate(NULL, 0));
    EXPECT(cudaErrorInvalidValue, cudaGraphCreate(&g, 1));
    OK(cudaGraphCreate(&g, 0));
    cudaGraphNode_t zero = add_zero(g, NULL, p), first = add_step(g, zero, p, 0),
                    second = add_step(g, first, p, 1);
    OK(cudaGraphAddMemcpyNode1D(&copying, g, &second, 1, copy, p, 8, cudaMemcpyDefault));
    struct cudaHostNodeParams h = {count_up, &calls};
    OK(cudaGraphAddHostNode(&calling, g, &second, 1, &h));
    cudaGraphNode_t both[] = {copying, calling};
    OK(cudaGraphAddEmptyNode(&joint, g, both, 2));
    /* what is in it */
    n = 8;
    OK(cudaGraphGetNodes(g, found, &n));
    WANT(n == 6 && found[0] == zero && found[5] == joint);
    n = 8;
    OK(cudaGraphGetRootNodes(g, found, &n));
    WANT(n == 1 && found[0] == zero && !found[1]);
    OK(cudaGraphGetEdges(g, NULL, NULL, NULL, &n));
    WANT(n == 6);
    n = 8;
    OK(cudaGraphGetEdges(g, from, to, NULL, &n));
    WANT(from[0] == zero && to[0] == first && from[5] == calling && to[5] == joint && !from[6]);
    n = 8;
    OK(cudaGraphNodeGetDependencies(joint, found, NULL, &n));
    WANT(n == 2 && found[0] == copying && found[1] == calling);
    n = 8;
    OK(cudaGraphNodeGetDependentNodes(second, found, NULL, &n));
    WANT(n == 2 && found[0] == copying && found[1] == calling);
    static const enum cudaGraphNodeType types[] = {cudaGraphNodeTypeMemset, cudaGraphNodeTypeKernel,
                                                   cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy,
                                                   cudaGraphNodeTypeHost,   cudaGraphNodeTypeEmpty};
    n = 8;
    OK(cudaGraphGetNodes(g, found, &n));
    for (int i = 0; i < 6; i++) {
        OK(cudaGraphNodeGetType(found[i], &type));
        WANT(type == types[i]);
    }
    struct cudaKernelNodeParams k;
    OK(cudaGraphKernelNodeGetParams(second, &k));
    WANT(k.func == stub_step && k.gridDim.x == 1 && *(unsigned **)k.kernelParams[0] == p &&
         *(unsigned *)k.kernelParams[1] == 1);
    struct cudaMemsetParams m;
    OK(cudaGraphMemsetNodeGetParams(zero, &m));
    WANT(m.dst == p && m.elementSize == 4 && m.width == 1 && m.height == 1 && m.value == 0);
    struct cudaMemcpy3DParms c;
    OK(cudaGraphMemcpyNodeGetParams(copying, &c));
    WANT(c.srcPtr.ptr == p && c.dstPtr.ptr == copy && c.extent.width == 8);
    EXPECT(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams(zero, &k));
    cudaKernelNodeAttrValue a;
    memset(&a, 0xff, sizeof a);
    OK(cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributeCooperative, &a));
    WANT(a.cooperative == 0);
    OK(cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributeClusterDimension, &a));
    WANT(a.clusterDim.x == 0);
    EXPECT(cudaErrorInvalidValue, cudaGraphKernelNodeGetAttribute(zero, cudaLaunchAttributeCooperative, &a));
    EXPECT(cudaErrorNotSupported, cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributePriority, &a));
    /* edges */
    EXPECT(cudaErrorInvalidValue, cudaGraphAddDependencies(g, &zero, &first, NULL, 1)); /* there already */
    EXPECT(cudaErrorInvalidValue, cudaGraphAddDependencies(g, &zero, &zero, NULL, 1));
    OK(cudaGraphAddDependencies(g, &joint, &zero, NULL, 1));
    cudaGraphExec_t x;
    EXPECT(cudaErrorInvalidValue, cudaGraphInstantiate(&x, g, 0)); /* a cycle */
    OK(cudaGraphRemoveDependencies(g, &joint, &zero, NULL, 1));
    EXPECT(cudaErrorInvalidValue, cudaGraphRemoveDependencies(g, &joint, &zero, NULL, 1));
    /* all three forms, many launches */
    cudaGraphInstantiateParams params = {0};
    cudaGraphExec_t y, z;
    x = ready(g);
    OK(cudaGraphInstantiateWithFlags(&y, g, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    OK(cudaGraphInstantiateWithParams(&z, g, &params));
    WANT(params.result_out == cudaGraphInstantiateSuccess);
    OK(cudaGraphDestroy(g)); /* what was made from it stays */
    EXPECT(cudaErrorInvalidValue, cudaGraphDestroy(g));
    cudaStream_t s = stream();
    OK(cudaGraphUpload(x, s));
    for (int i = 0; i < 10; i++)
        OK(cudaGraphLaunch(i % 3 == 0 ? x : i % 3 == 1 ? y : z, s));
    OK(cudaGraphExecDestroy(z));
    OK(cudaStreamSynchronize(s));
    WANT(calls == 10 && p[0] == 2 && p[1] == 0 && copy[0] == 2);
    OK(cudaGraphExecDestroy(x));
    OK(cudaGraphExecDestroy(y));
    EXPECT(cudaErrorInvalidValue, cudaGraphLaunch(x, s));
    OK(cudaDeviceSynchronize());
    struct raw r; /* each kernel of each launch is in the stream's trace */
    WANT(!raw_read(in_dir(dir, "MemTrace-pipe-0"), &r) && r.launches == 20 && r.whole == r.bytes);
    for (int i = 0; i < 20; i++)
        WANT(!strcmp(r.launch[i].name, "step<int>") && r.launch[i].records == 2);
}

TEST(changes)
{
    unsigned *p = words(4), *q = words(4), expected = 5, on;
    cudaGraph_t g, clone, child, small;
    cudaStream_t s = stream();
    OK(cudaGraphCreate(&g, 0));
    cudaGraphNode_t a = add_step(g, NULL, p, 0), b = add_step(g, a, p, 1), c, d, node;
    cudaGraphExec_t x = ready(g);
    OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    WANT(p[0] == 2 && p[1] == 0);
    /* one node of the executable graph; the graph itself stays */
    void *args[] = {&q, &expected};
    struct cudaKernelNodeParams k = {stub_step, one, one, 0, args, NULL}, was;
    OK(cudaGraphExecKernelNodeSetParams(x, a, &k));
    OK(cudaGraphNodeSetEnabled(x, b, 0));
    OK(cudaGraphNodeGetEnabled(x, b, &on));
    WANT(!on);
    q[0] = 5;
    OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    WANT(q[0] == 6 && q[1] == 0 && p[0] == 2);
    OK(cudaGraphKernelNodeGetParams(a, &was));
    WANT(*(unsigned **)was.kernelParams[0] == p);
    /* all of it from another graph of the same shape */
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphClone(&clone, g));
    OK(cudaGraphNodeFindInClone(&c, a, clone));
    OK(cudaGraphNodeFindInClone(&d, b, clone));
    WANT(c != a && d != b && c != d);
    EXPECT(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&node, c, g));
    expected = 6;
    OK(cudaGraphKernelNodeSetParams(c, &k));
    expected = 7;
    OK(cudaGraphKernelNodeSetParams(d, &k));
    OK(cudaGraphExecUpdate(x, clone, &info));
    WANT(info.result == cudaGraphExecUpdateSuccess);
    OK(cudaGraphNodeSetEnabled(x, b, 1));
    OK(cudaGraphLaunch(x, s));
    OK(cudaStreamSynchronize(s));
    WANT(q[0] == 8 && q[1] == 0 && p[0] == 2);
    OK(cudaGraphAddEmptyNode(&node, clone, NULL, 0));
    EXPECT(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(x, clone, &info));
    WANT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
    OK(cudaGraphDestroyNode(node));
    WANT(count_nodes(clone) == 2);
    /* a graph in a graph is a copy */
    OK(cudaGraphCreate(&small, 0));
    OK(cudaGraphAddChildGraphNode(&node, small, NULL, 0, g));
    cudaGraphNode_t after = add_step(small, node, p, 2);
    OK(cudaGraphChildGraphNodeGetGraph(node, &child));
    WANT(child != g && count_nodes(child) == 2);
    EXPECT(cudaErrorInvalidValue, cudaGraphDestroy(child)); /* the node's */
    OK(cudaGraphDestroy(g));
    p[0] = 0;
    cudaGraphExec_t y = ready(small);
    OK(cudaGraphLaunch(y, s));
    OK(cudaStreamSynchronize(s));
    WANT(p[0] == 3 && p[1] == 0 && after);
    /* events in graphs */
    cudaEvent_t e = event(), got;
    OK(cudaGraphAddEventRecordNode(&c, clone, &d, 1, e));
    OK(cudaGraphAddEventWaitNode(&node, clone, &c, 1, e));
    OK(cudaGraphEventRecordNodeGetEvent(c, &got));
    WANT(got == e);
    q[0] = 6;
    OK(cudaGraphLaunch(ready(clone), s));
    OK(cudaEventSynchronize(e));
    WANT(q[0] == 8 && q[1] == 0);
    /* the same executable graph in two streams: one launch after the other */
    cudaStream_t t = stream();
    OK(cudaGraphCreate(&g, 0));
    b = add_step(g, add_zero(g, NULL, p), p, 0);
    for (unsigned i = 1; i < 20; i++)
        b = add_step(g, b, p, i);
    x = ready(g);
    for (int i = 0; i < 20; i++)
        OK(cudaGraphLaunch(x, i % 2 ? s : t));
    OK(cudaDeviceSynchronize());
    WANT(p[0] == 20 && p[1] == 0);
}

TEST(memory)
{
    unsigned *h = words(2), *p, expected = 0;
    cudaStream_t s = stream();
    cudaGraph_t g;
    cudaGraphNode_t a, f;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync((void **)&p, 8, s));
    OK(cudaMemsetAsync(p, 0, 8, s));
    OK(step(p, 0, s));
    OK(cudaMemcpyAsync(h, p, 8, cudaMemcpyDeviceToHost, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamEndCapture(s, &g));
    WANT(count_nodes(g) == 5);
    cudaGraphExec_t x = ready(g);
    for (int i = 0; i < 3; i++) {
        h[0] = 0;
        OK(cudaGraphLaunch(x, s));
        OK(cudaStreamSynchronize(s));
        WANT(h[0] == 1 && h[1] == 0);
    }
    OK(cudaGraphExecDestroy(x));
    OK(cudaGraphDestroy(g));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(h, p, 8, cudaMemcpyDeviceToHost)); /* it went with the graph */
    OK(cudaGraphCreate(&g, 0));
    struct cudaMemAllocNodeParams m = {.bytesize = 8};
    m.poolProps.allocType = cudaMemAllocationTypePinned;
    m.poolProps.location.type = cudaMemLocationTypeDevice;
    OK(cudaGraphAddMemAllocNode(&a, g, NULL, 0, &m));
    p = m.dptr;
    a = add_zero(g, a, p);
    a = add_step(g, a, p, expected);
    OK(cudaGraphAddMemFreeNode(&f, g, &a, 1, p));
    EXPECT(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&f, g, &a, 1, p));
    OK(cudaGraphLaunch(ready(g), s));
    OK(cudaStreamSynchronize(s));
    /* what the graph does not free, the program does, and the next launch has it again */
    cudaGraph_t keeps, frees;
    OK(cudaGraphCreate(&keeps, 0));
    OK(cudaGraphAddMemAllocNode(&a, keeps, NULL, 0, &m));
    p = m.dptr;
    add_step(keeps, add_zero(keeps, a, p), p, 0);
    x = ready(keeps);
    OK(cudaGraphCreate(&frees, 0));
    OK(cudaGraphAddMemFreeNode(&f, frees, NULL, 0, p));
    cudaGraphExec_t y = ready(frees);
    for (int i = 0; i < 6; i++) {
        OK(cudaGraphLaunch(x, s));
        OK(cudaMemcpyAsync(h, p, 4, cudaMemcpyDeviceToHost, s));
        OK(i % 3 == 0 ? cudaFree(p) : i % 3 == 1 ? cudaFreeAsync(p, s) : cudaGraphLaunch(y, s));
        OK(cudaStreamSynchronize(s));
        WANT(h[0] == 1);
        EXPECT(cudaErrorInvalidValue, cudaFree(p));
        h[0] = 0;
    }
    /* not in a capture: freed when the stream comes to it */
    OK(cudaMallocAsync((void **)&p, 8, s));
    OK(cudaMemsetAsync(p, 0, 8, s));
    OK(step(p, 0, s));
    OK(cudaMemcpyAsync(h, p, 8, cudaMemcpyDeviceToHost, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamSynchronize(s));
    WANT(h[0] == 1 && h[1] == 0);
    EXPECT(cudaErrorInvalidValue, cudaFreeAsync(p, s));
    EXPECT(cudaErrorInvalidValue, cudaFreeAsync(h, s));
}

TEST(user_objects)
{
    unsigned gone = 0;
    cudaUserObject_t o;
    cudaGraph_t g;
    OK(cudaGraphCreate(&g, 0));
    OK(cudaUserObjectCreate(&o, &gone, count_up, 1, cudaUserObjectNoDestructorSync));
    OK(cudaGraphRetainUserObject(g, o, 1, cudaGraphUserObjectMove));
    cudaGraphExec_t x = ready(g);
    OK(cudaGraphDestroy(g));
    WANT(!gone);
    OK(cudaGraphExecDestroy(x));
    WANT(gone == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_attributes), cmocka_unit_test(explicit_graph),
        cmocka_unit_test(changes),           cmocka_unit_test(memory),
        cmocka_unit_test(user_objects),
    };
    program_streams = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
