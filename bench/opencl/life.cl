// The kernels of bench/life.cu in OpenCL. Sums over a warp or a CTA use sub-groups of 32 if the runtime has them (cl_intel_subgroups), else local memory, as for PoCL 3.1.
#define DX 128
#define DY 64
#define N (1 << 20)
#ifdef cl_intel_subgroups
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define WARPS __attribute__((intel_reqd_sub_group_size(32)))
#else
#define WARPS
#endif

__attribute__((reqd_work_group_size(16, 16, 1)))
kernel void gemm(global const float *a, global const float *b, global float *c, int n)
{
    local float as[16][64], bs[16][64];
    int tx = get_local_id(0), ty = get_local_id(1), row = get_group_id(1) * 64, column = get_group_id(0) * 64;
    float sum[4][4] = {{0}};
    for (int t = 0; t < n; t += 16) {
        for (int i = ty * 16 + tx; i < 64 * 16; i += 256) {
            as[i % 16][i / 16] = a[(row + i / 16) * n + t + i % 16];
            bs[i / 64][i % 64] = b[(t + i / 64) * n + column + i % 64];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += as[k][ty * 4 + i] * bs[k][tx * 4 + j];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + ty * 4 + i) * n + column + tx * 4 + j] = sum[i][j];
}

__attribute__((reqd_work_group_size(32, 8, 1)))
kernel void transpose(global const float *a, global const float *b, global float *c, int n)
{
    local float tile[32][33];
    int tx = get_local_id(0), ty = get_local_id(1), x = get_group_id(0) * 32, y = get_group_id(1) * 32;
    for (int i = ty; i < 32; i += 8)
        tile[i][tx] = a[(y + i) * n + x + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = ty; i < 32; i += 8)
        c[(x + i) * n + y + tx] = tile[tx][i];
}

__attribute__((reqd_work_group_size(256, 1, 1)))
kernel void scan(global const float *a, global const float *b, global float *c, int n)
{
    local float part[2][256];
    int t = get_local_id(0), i = get_global_id(0), from = 0;
    part[0][t] = i < n ? a[i] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = 1; d < 256; d *= 2) {
        part[1 - from][t] = part[from][t] + (t >= d ? part[from][t - d] : 0);
        from = 1 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < n)
        c[i] = part[from][t];
}

// Computes the sum or maximum over 32 threads (WIDTH 32) or over the group (WIDTH 256), and gives it to all of them.
#ifdef cl_intel_subgroups
#define COMBINE(name, operation, reduce, nothing)                                                                  \
    float name##_warp(float x, local float *part)                                                            \
    {                                                                                                        \
        return reduce(x);                                                                                    \
    }                                                                                                        \
    float name##_group(float x, local float *part)                                                           \
    {                                                                                                        \
        int t = get_local_id(0);                                                                             \
        x = reduce(x);                                                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        if (t % 32 == 0)                                                                                     \
            part[t / 32] = x;                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        return reduce(t % 32 < 8 ? part[t % 32] : nothing);                                                  \
    }
#else
#define COMBINE(name, operation, reduce, nothing)                                                                  \
    float name##_tree(float x, local float *part, int width)                                                 \
    {                                                                                                        \
        int t = get_local_id(0);                                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        part[t] = x;                                                                                         \
        for (int d = width / 2; d; d /= 2) {                                                                 \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
            if (t % width < d)                                                                               \
                part[t] = operation(part[t], part[t + d]);                                                   \
        }                                                                                                    \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        return part[t - t % width];                                                                          \
    }                                                                                                        \
    float name##_warp(float x, local float *part)                                                            \
    {                                                                                                        \
        return name##_tree(x, part, 32);                                                                     \
    }                                                                                                        \
    float name##_group(float x, local float *part)                                                           \
    {                                                                                                        \
        return name##_tree(x, part, 256);                                                                    \
    }
#endif
#define PLUS(x, y) ((x) + (y))
COMBINE(add, PLUS, sub_group_reduce_add, 0)
COMBINE(most, fmax, sub_group_reduce_max, -INFINITY)

__attribute__((reqd_work_group_size(256, 1, 1))) WARPS
kernel void block_sum(global const float *a, global const float *b, global float *c, int n)
{
    local float part[256];
    int t = get_local_id(0), group = get_group_id(0);
    float sum = 0;
    for (int i = t; i < n; i += 256)
        sum += a[group * n + i];
    sum = add_group(sum, part);
    if (t == 0)
        c[group] = sum;
}

__attribute__((reqd_work_group_size(256, 1, 1))) WARPS
kernel void warp_sum(global const float *a, global const float *b, global float *c, int n)
{
    local float part[256];
    int row = get_global_id(0) / 32, lane = get_local_id(0) % 32;
    float sum = 0;
    for (int i = lane; i < n; i += 32)
        sum += a[row * n + i];
    sum = add_warp(sum, part);
    if (lane == 0)
        c[row] = sum;
}

__attribute__((reqd_work_group_size(256, 1, 1))) WARPS
kernel void softmax(global const float *a, global const float *b, global float *c, int n)
{
    local float part[256];
    int t = get_local_id(0), group = get_group_id(0);
    global const float *from = a + group * n;
    float highest = -INFINITY, sum = 0;
    for (int i = t; i < n; i += 256)
        highest = fmax(highest, from[i]);
    highest = most_group(highest, part);
    for (int i = t; i < n; i += 256) {
        float e = exp(from[i] - highest);
        c[group * n + i] = e;
        sum += e;
    }
    sum = 1 / add_group(sum, part);
    for (int i = t; i < n; i += 256)
        c[group * n + i] *= sum;
}

__attribute__((reqd_work_group_size(256, 1, 1))) WARPS
kernel void layernorm(global const float *a, global const float *b, global float *c, int n)
{
    local float part[256];
    int row = get_global_id(0) / 32, lane = get_local_id(0) % 32;
    global const float *from = a + row * n;
    float mean = 0, variance = 0;
    for (int i = lane; i < n; i += 32)
        mean += from[i];
    mean = add_warp(mean, part) / n;
    for (int i = lane; i < n; i += 32)
        variance += (from[i] - mean) * (from[i] - mean);
    variance = rsqrt(add_warp(variance, part) / n + 1e-5f);
    for (int i = lane; i < n; i += 32)
        c[row * n + i] = (from[i] - mean) * variance * b[i] + b[n + i];
}

__attribute__((reqd_work_group_size(256, 1, 1)))
kernel void bitonic(global const float *a, global const float *b, global float *c, int n)
{
    local float key[512];
    int t = get_local_id(0), from = get_group_id(0) * 512;
    key[t] = a[from + t];
    key[t + 256] = a[from + t + 256];
    for (int size = 2; size <= 512; size *= 2)
        for (int d = size / 2; d; d /= 2) {
            int i = 2 * t - (t & (d - 1));
            barrier(CLK_LOCAL_MEM_FENCE);
            float x = key[i], y = key[i + d];
            if ((x > y) == ((i & size) == 0)) {
                key[i] = y;
                key[i + d] = x;
            }
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    c[from + t] = key[t];
    c[from + t + 256] = key[t + 256];
}

__attribute__((reqd_work_group_size(32, 8, 1)))
kernel void stencil3d(global const float *a, global const float *b, global float *c, int depth)
{
    local float plane[10][34];
    int x = get_global_id(0), y = get_global_id(1), at = y * DX + x;
    int tx = get_local_id(0) + 1, ty = get_local_id(1) + 1;
    float before = a[at], here = a[at + DX * DY];
    for (int z = 1; z < depth - 1; z++) {
        at += DX * DY;
        float after = a[at + DX * DY];
        plane[ty][tx] = here;
        if (tx == 1 && x > 0)
            plane[ty][0] = a[at - 1];
        if (tx == 32 && x < DX - 1)
            plane[ty][33] = a[at + 1];
        if (ty == 1 && y > 0)
            plane[0][tx] = a[at - DX];
        if (ty == 8 && y < DY - 1)
            plane[9][tx] = a[at + DX];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (x > 0 && x < DX - 1 && y > 0 && y < DY - 1)
            c[at] = 0.4f * here + 0.1f * (plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] +
                                          plane[ty + 1][tx] + before + after);
        barrier(CLK_LOCAL_MEM_FENCE);
        before = here;
        here = after;
    }
}

__attribute__((reqd_work_group_size(256, 1, 1))) WARPS
kernel void spmv(global const float *a, global const float *b, global float *c, int n)
{
    local float part[256];
    global const int *begin = (global const int *)b, *column = begin + n + 1;
    global const float *x = a + N - n;
    int row = get_global_id(0) / 32, lane = get_local_id(0) % 32;
    float sum = 0;
    for (int k = begin[row] + lane; k < begin[row + 1]; k += 32)
        sum += a[k] * x[column[k]];
    sum = add_warp(sum, part);
    if (lane == 0)
        c[row] = sum;
}

__attribute__((reqd_work_group_size(256, 1, 1)))
kernel void bodies_tiled(global const float *a, global const float *b, global float *c, int n)
{
    local float4 tile[256];
    global const float4 *p = (global const float4 *)a;
    int i = get_global_id(0), me_local = get_local_id(0);
    float x = 0, y = 0, z = 0;
    float4 me = p[i];
    for (int t = 0; t < n; t += 256) {
        tile[me_local] = p[t + me_local];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < 256; j++) {
            float4 you = tile[j];
            float dx = you.x - me.x, dy = you.y - me.y, dz = you.z - me.z;
            float r = rsqrt(dx * dx + dy * dy + dz * dz + 0.01f), s = you.w * r * r * r;
            x += dx * s;
            y += dy * s;
            z += dz * s;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    ((global float4 *)c)[i] = (float4)(x, y, z, 0);
}
