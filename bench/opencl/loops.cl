// The kernels of bench/loops.cu in OpenCL, for other runtimes on this processor.
kernel void vector_add(global const float *a, global const float *b, global float *c, int n)
{
    int i = get_global_id(0);
    if (i < n)
        c[i] = a[i] + b[i];
}

kernel void saxpy(global const float *a, global const float *b, global float *c, int n)
{
    int i = get_global_id(0);
    if (i < n)
        c[i] = 2.5f * a[i] + b[i];
}

kernel void stencil(global const float *a, global const float *b, global float *c, int width)
{
    int x = get_global_id(0), y = get_global_id(1), height = width;
    if (x > 0 && y > 0 && x < width - 1 && y < height - 1)
        c[y * width + x] =
            0.5f * a[y * width + x] + 0.125f * (a[y * width + x - 1] + a[y * width + x + 1] +
                                                a[(y - 1) * width + x] + a[(y + 1) * width + x]);
}

kernel void matrix_multiply(global const float *a, global const float *b, global float *c, int n)
{
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

kernel void exp_sqrt(global const float *a, global const float *b, global float *c, int n)
{
    int i = get_global_id(0);
    if (i < n)
        c[i] = exp(-a[i]) * sqrt(a[i]);
}

kernel void histogram(global const float *a, global const float *b, global unsigned *bins, int n)
{
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_add(&bins[(int)(a[i] * 256.0f)], 1u);
}

kernel void bodies(global const float4 *p, global const float *b, global float4 *f, int n)
{
    int i = get_global_id(0);
    float x = 0, y = 0, z = 0;
    float4 me = p[i];
    for (int j = 0; j < n; j++) {
        float4 you = p[j];
        float dx = you.x - me.x, dy = you.y - me.y, dz = you.z - me.z;
        float r = rsqrt(dx * dx + dy * dy + dz * dz + 0.01f), s = you.w * r * r * r;
        x += dx * s;
        y += dy * s;
        z += dz * s;
    }
    f[i] = (float4)(x, y, z, 0);
}

#define TILE 16
kernel void matrix_tiled(global const float *a, global const float *b, global float *c, int n)
{
    local float as[TILE][TILE], bs[TILE][TILE];
    int tx = get_local_id(0), ty = get_local_id(1), x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        as[ty][tx] = a[y * n + t + tx];
        bs[ty][tx] = b[(t + ty) * n + x];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TILE; k++)
            sum += as[ty][k] * bs[k][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[y * n + x] = sum;
}

kernel void reduce(global const float *a, global const float *b, global float *c, int per_group)
{
    local float part[256];
    unsigned t = get_local_id(0), group = get_group_id(0);
    float sum = 0;
    for (int i = t; i < per_group; i += get_local_size(0))
        sum += a[group * per_group + i];
    part[t] = sum;
    for (unsigned half_size = get_local_size(0) / 2; half_size; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < half_size)
            part[t] += part[t + half_size];
    }
    if (!t)
        c[group] = part[0];
}
