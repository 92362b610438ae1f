/* Runs bench/loops.cu and life.cu on an OpenCL runtime for this processor. loops FOLDER KERNEL LAUNCHES
 * prints what loops.cu prints; FOLDER contains loops.cl and life.cl. loops FOLDER lists the runtimes.
 * OCL_RUNTIME: part of the name of the runtime to use. */
#define CL_TARGET_OPENCL_VERSION 120
#define _GNU_SOURCE
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>
#include "../life.h"

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cl_int e_ = (call);                                                                                  \
        if (e_ != CL_SUCCESS) {                                                                              \
            fprintf(stderr, "loops: %s: error %d\n", #call, e_);                                             \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static const struct kernel {
    const char *name;
    size_t global[2], local[2];
    int n;
    uint32_t results;
} kernels[] = {
    {"vector_add", {N, 1}, {256, 1}, N, N},
    {"saxpy", {N, 1}, {256, 1}, N, N},
    {"stencil", {SIDE, SIDE}, {32, 8}, SIDE, N},
    {"matrix_multiply", {MATRIX, MATRIX}, {16, 16}, MATRIX, MATRIX *MATRIX},
    {"exp_sqrt", {N, 1}, {256, 1}, N, N},
    {"histogram", {64 * 256, 1}, {256, 1}, N, 0},
    {"bodies", {BODIES, 1}, {256, 1}, BODIES, 4 * BODIES},
    {"matrix_tiled", {MATRIX, MATRIX}, {16, 16}, MATRIX, MATRIX *MATRIX},
    {"reduce", {N / SUM_PER_CTA * 256, 1}, {256, 1}, SUM_PER_CTA, N / SUM_PER_CTA},
};

static cl_platform_id loops_runtime(int list)
{
    cl_platform_id all[16], found = NULL;
    cl_uint n = 0;
    const char *wanted = getenv("OCL_RUNTIME");
    CHECK(clGetPlatformIDs(16, all, &n));
    for (cl_uint i = 0; i < n; i++) {
        char name[256] = "", version[256] = "";
        CHECK(clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof name, name, NULL));
        CHECK(clGetPlatformInfo(all[i], CL_PLATFORM_VERSION, sizeof version, version, NULL));
        if (list)
            printf("%s\t%s\n", name, version);
        if (!found && (!wanted || strstr(name, wanted)))
            found = all[i];
    }
    return found;
}

/* Finds a kernel of loops.cl, or one of life.def. Returns false if there is none. */
static int loops_find(const char *name, struct kernel *found)
{
    const struct mt_life *life = mt_life_find(name);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(name, kernels[i].name)) {
            *found = kernels[i];
            return 1;
        }
    if (!life)
        return 0;
    *found = (struct kernel){.name = life->name, .n = life->n, .results = life->results};
    for (int i = 0; i < 2; i++) {
        found->local[i] = life->block[i];
        found->global[i] = (size_t)life->grid[i] * life->block[i];
    }
    return 1;
}

static char *loops_text(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 65536);
    if (!f || !text || !fread(text, 1, 65535, f)) {
        fprintf(stderr, "loops: cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return text;
}

int main(int argc, char **argv)
{
    struct kernel k;
    int launches = argc == 4 ? atoi(argv[3]) : 0;
    if (argc == 2)
        return loops_runtime(1) == NULL;
    if (launches < 1 || !loops_find(argv[2], &k)) {
        fprintf(stderr, "usage: loops FOLDER [KERNEL LAUNCHES]\n");
        return 2;
    }
    cl_int e;
    cl_device_id device;
    cl_platform_id platform = loops_runtime(0);
    char *text = loops_text(argv[1], mt_life_find(k.name) ? "life.cl" : "loops.cl");
    if (!platform)
        return 3;
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL));
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &e);
    CHECK(e);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &e);
    CHECK(e);
    cl_program program = clCreateProgramWithSource(context, 1, (const char **)&text, NULL, &e);
    CHECK(e);
    CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, k.name, &e);
    CHECK(e);
    float *host = calloc(N, sizeof *host);
    cl_mem memory[3];
    for (cl_uint i = 0; host && i < 3; i++) {
        mt_life_fill(k.name, host, (int)i);
        if (i == 2)
            memset(host, 0, N * sizeof *host);
        memory[i] =
            clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, N * sizeof *host, host, &e);
        CHECK(e);
        CHECK(clSetKernelArg(kernel, i, sizeof memory[i], &memory[i]));
    }
    CHECK(clSetKernelArg(kernel, 3, sizeof k.n, &k.n));
    cl_uint dimensions = k.global[1] > 1 ? 2 : 1;
    CHECK(clEnqueueNDRangeKernel(queue, kernel, dimensions, NULL, k.global, k.local, 0, NULL, NULL));
    CHECK(clFinish(queue));
    double elapsed = mt_clock(CLOCK_MONOTONIC), processor = mt_clock(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < launches; i++)
        CHECK(clEnqueueNDRangeKernel(queue, kernel, dimensions, NULL, k.global, k.local, 0, NULL, NULL));
    CHECK(clFinish(queue));
    elapsed = mt_clock(CLOCK_MONOTONIC) - elapsed;
    processor = mt_clock(CLOCK_PROCESS_CPUTIME_ID) - processor;
    CHECK(clEnqueueReadBuffer(queue, memory[2], CL_TRUE, 0, N * sizeof *host, host, 0, NULL, NULL));
    uint32_t results = k.results;
    if (!results) { /* the histogram's integers, converted to floats */
        results = BINS;
        for (uint32_t i = 0; i < BINS; i++) {
            unsigned v;
            memcpy(&v, &host[i], sizeof v);
            host[i] = (float)(i + 1) * (float)(v / (unsigned)(launches + 1));
        }
    }
    if (mt_life_find(k.name) && mt_life_check(mt_life_find(k.name), host))
        return 1;
    mt_print(elapsed, processor, host, results);
    return 0;
}
