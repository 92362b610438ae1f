// Launches inside of NVTX ranges of all kinds. Kernel kN<<<1, N>>> writes one float a thread; which ranges
// are open at each comes after it.
#include <cstdio>
#include <nvtx3/nvToolsExt.h>
#include <thread>

template <int N> __global__ void k(float *p)
{
    p[threadIdx.x] = N;
}

int main()
{
    float *p;
    cudaMalloc(&p, 1024);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
    nvtxStringHandle_t known = nvtxDomainRegisterStringA(domain, "known name");
    nvtxEventAttributes_t a = {};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = known;

    k<1><<<1, 1>>>(p); // none
    int levels = nvtxRangePushA("outer");
    k<2><<<1, 2>>>(p); // outer
    levels = levels * 10 + nvtxRangePushW(L"inn\u00e9r \u20ac");
    k<3><<<1, 3>>>(p); // outer, innér €
    levels = levels * 10 + nvtxDomainRangePushEx(domain, &a);
    k<4><<<1, 4>>>(p); // outer, innér €, known name
    std::thread([=] {
        k<5><<<1, 5>>>(p); // none: another thread's
        nvtxRangePushA("thread");
        k<6><<<1, 6>>>(p); // thread
        cudaDeviceSynchronize();
        nvtxRangePop();
    }).join();
    levels = levels * 10 + nvtxRangePop();
    k<7><<<1, 7>>>(p); // outer, known name
    levels = levels * 10 + nvtxDomainRangePop(domain);
    levels = levels * 10 + nvtxRangePop();
    k<8><<<1, 8>>>(p); // none
    nvtxRangeId_t first = nvtxRangeStartA("started");
    nvtxRangeId_t second = nvtxDomainRangeStartEx(domain, &a);
    std::thread([=] {
        k<9><<<1, 9>>>(p); // started, known name
        cudaDeviceSynchronize();
        nvtxRangeEnd(first);
    }).join();
    k<10><<<1, 10>>>(p); // known name
    nvtxDomainRangeEnd(domain, second);
    k<11><<<1, 11>>>(p); // none
    nvtxRangePushA("for ever");
    k<12><<<1, 12>>>(p); // for ever
    printf("%d %d %d\n", levels, nvtxDomainRangePop(domain) < 0, first != second);
    return cudaDeviceSynchronize();
}
