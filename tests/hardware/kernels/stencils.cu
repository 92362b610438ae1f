// Grids in one, two and three dimensions.

__constant__ float taps[17];

__global__ void heat_5(const float *in, float *out, int nx, int ny, float a)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1)
        return;
    int i = y * nx + x;
    out[i] = in[i] + a * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] - 4 * in[i]);
}

__global__ void box_9(const double *__restrict__ in, double *__restrict__ out, int nx)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y + 1;
    double sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            sum += in[(y + dy) * nx + x + dx];
    out[y * nx + x] = sum / 9;
}

template <int RADIUS> __global__ void line(const float *in, float *out, int n)
{
    __shared__ float tile[128 + 2 * RADIUS];
    int i = blockIdx.x * 128 + threadIdx.x + RADIUS, at = threadIdx.x + RADIUS;
    tile[at] = in[i];
    if (threadIdx.x < RADIUS) {
        tile[at - RADIUS] = in[i - RADIUS];
        tile[at + 128] = in[i + 128];
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int k = -RADIUS; k <= RADIUS; k++)
        sum += taps[k + RADIUS] * tile[at + k];
    out[i] = sum;
}
template __global__ void line<2>(const float *, float *, int);
template __global__ void line<8>(const float *, float *, int);

__global__ void star_7(const float *in, float *out, int nx, int ny, int nz)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    long plane = (long)nx * ny, i = (long)y * nx + x;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1)
        return;
    float below = in[i], here = in[i + plane], above;
    for (int z = 1; z < nz - 1; z++) {
        i += plane;
        above = in[i + plane];
        out[i] = 0.5f * here + 0.1f * (below + above + in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx]);
        below = here;
        here = above;
    }
}

template <int R>
__global__ void wave_25(const float *now, float *before, const float *speed, const float *c, int nx, int nxy,
                        int nz)
{
    __shared__ float tile[8 + 2 * R][32 + 2 * R];
    int tx = threadIdx.x + R, ty = threadIdx.y + R;
    int i = (blockIdx.y * 8 + ty) * nx + blockIdx.x * 32 + tx;
    float behind[R], front[R], centre = now[i + R * nxy];
    for (int k = 0; k < R; k++) {
        behind[k] = now[i + (R - 1 - k) * nxy];
        front[k] = now[i + (R + 1 + k) * nxy];
    }
    for (int z = R; z < nz - R; z++) {
        int at = i + z * nxy;
        tile[ty][tx] = centre;
        if (threadIdx.y < R) {
            tile[threadIdx.y][tx] = now[at - R * nx];
            tile[ty + 8][tx] = now[at + 8 * nx];
        }
        if (threadIdx.x < R) {
            tile[ty][threadIdx.x] = now[at - R];
            tile[ty][tx + 32] = now[at + 32];
        }
        __syncthreads();
        float sum = c[0] * centre;
        for (int k = 1; k <= R; k++)
            sum += c[k] * (tile[ty][tx - k] + tile[ty][tx + k] + tile[ty - k][tx] + tile[ty + k][tx] +
                           behind[k - 1] + front[k - 1]);
        before[at] = 2 * centre - before[at] + speed[at] * sum;
        for (int k = R - 1; k > 0; k--)
            behind[k] = behind[k - 1];
        behind[0] = centre;
        centre = front[0];
        for (int k = 0; k < R - 1; k++)
            front[k] = front[k + 1];
        front[R - 1] = now[at + (R + 1) * nxy];
        __syncthreads();
    }
}
template __global__ void wave_25<4>(const float *, float *, const float *, const float *, int, int, int);

__global__ void convolve_rows(const float *in, float *out, int width)
{
    __shared__ float tile[4][16 * 10];
    int x0 = (blockIdx.x * 8 - 1) * 16 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    in += y * width + x0;
    out += y * width + x0;
#pragma unroll
    for (int k = 1; k < 9; k++)
        tile[threadIdx.y][threadIdx.x + k * 16] = in[k * 16];
    tile[threadIdx.y][threadIdx.x] = x0 >= 0 ? in[0] : 0;
    tile[threadIdx.y][threadIdx.x + 144] = x0 + 144 < width ? in[144] : 0;
    __syncthreads();
#pragma unroll
    for (int k = 1; k < 9; k++) {
        float sum = 0;
#pragma unroll
        for (int j = -8; j <= 8; j++)
            sum += taps[8 - j] * tile[threadIdx.y][threadIdx.x + k * 16 + j];
        out[k * 16] = sum;
    }
}

__global__ void blur_colours(const uchar4 *in, uchar4 *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float r = 0, g = 0, b = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            int xx = min(max(x + dx, 0), width - 1), yy = min(max(y + dy, 0), height - 1);
            uchar4 p = in[yy * width + xx];
            r += p.x;
            g += p.y;
            b += p.z;
        }
    out[y * width + x] = make_uchar4(r / 9, g / 9, b / 9, in[y * width + x].w);
}

__global__ void sobel(const unsigned char *in, short *dx, short *dy, int pitch)
{
    const unsigned char *p = in + (blockIdx.y + 1) * pitch + blockIdx.x * blockDim.x + threadIdx.x + 1;
    int i = blockIdx.y * pitch + blockIdx.x * blockDim.x + threadIdx.x;
    dx[i] = p[-pitch + 1] + 2 * p[1] + p[pitch + 1] - p[-pitch - 1] - 2 * p[-1] - p[pitch - 1];
    dy[i] = p[pitch - 1] + 2 * p[pitch] + p[pitch + 1] - p[-pitch - 1] - 2 * p[-pitch] - p[-pitch + 1];
}

struct Flow {
    float density, x, y, energy;
};

__global__ void flux(const Flow *in, Flow *out, int nx, float step)
{
    int i = (blockIdx.y + 1) * nx + blockIdx.x * blockDim.x + threadIdx.x + 1;
    Flow c = in[i], l = in[i - 1], r = in[i + 1], u = in[i - nx], d = in[i + nx];
    Flow n;
    n.density = c.density - step * (r.x - l.x + d.y - u.y);
    n.x = c.x - step * (r.x * r.x / r.density - l.x * l.x / l.density);
    n.y = c.y - step * (d.y * d.y / d.density - u.y * u.y / u.density);
    n.energy = c.energy - step * (r.energy * r.x - l.energy * l.x + d.energy * d.y - u.energy * u.y);
    out[i] = n;
}

__global__ void lattice(const float *f0, const float *f1, const float *f2, const float *f3, const float *f4,
                        float *g0, float *g1, float *g2, float *g3, float *g4, const char *solid, int nx,
                        float omega)
{
    int i = (blockIdx.y + 1) * nx + blockIdx.x * blockDim.x + threadIdx.x + 1;
    float c = f0[i], e = f1[i - 1], n = f2[i - nx], w = f3[i + 1], s = f4[i + nx];
    if (solid[i]) {
        g1[i] = w;
        g2[i] = s;
        g3[i] = e;
        g4[i] = n;
        return;
    }
    float rho = c + e + n + w + s, ux = (e - w) / rho, uy = (n - s) / rho,
          square = 1.5f * (ux * ux + uy * uy);
    g0[i] = c + omega * (rho / 3 * (1 - square) - c);
    g1[i] = e + omega * (rho / 6 * (1 + 3 * ux + 4.5f * ux * ux - square) - e);
    g2[i] = n + omega * (rho / 6 * (1 + 3 * uy + 4.5f * uy * uy - square) - n);
    g3[i] = w + omega * (rho / 6 * (1 - 3 * ux + 4.5f * ux * ux - square) - w);
    g4[i] = s + omega * (rho / 6 * (1 - 3 * uy + 4.5f * uy * uy - square) - s);
}

__global__ void jacobi(const double *a, const double *b, double *c, double *residual, int n)
{
    double most = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x + 1; i < n - 1; i += gridDim.x * blockDim.x)
        for (int j = 1; j < n - 1; j++) {
            double v = 0.25 * (a[(i - 1) * n + j] + a[(i + 1) * n + j] + a[i * n + j - 1] + a[i * n + j + 1] -
                               b[i * n + j]);
            c[i * n + j] = v;
            most = fmax(most, fabs(v - a[i * n + j]));
        }
    residual[blockIdx.x * blockDim.x + threadIdx.x] = most;
}

__global__ void life(const unsigned char *in, unsigned char *out, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, left = (x + n - 1) % n,
        right = (x + 1) % n;
    const unsigned char *row = in + y * n, *up = in + (y + n - 1) % n * n, *down = in + (y + 1) % n * n;
    int sum = up[left] + up[x] + up[right] + row[left] + row[right] + down[left] + down[x] + down[right];
    out[y * n + x] = sum == 3 || (sum == 2 && row[x]);
}

__global__ void gradient_float4(const float4 *in, float4 *out, int nx4)
{
    int i = blockIdx.y * nx4 + blockIdx.x * blockDim.x + threadIdx.x;
    float4 a = in[i];
    float before = reinterpret_cast<const float *>(in)[4 * i - 1],
          behind = reinterpret_cast<const float *>(in)[4 * i + 4];
    out[i] =
        make_float4(0.5f * (a.y - before), 0.5f * (a.z - a.x), 0.5f * (a.w - a.y), 0.5f * (behind - a.z));
}
