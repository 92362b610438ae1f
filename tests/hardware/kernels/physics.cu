// Particles, rays, options, matrices: arithmetic between accesses.

struct Vec {
    float x, y, z;
    __device__ Vec operator+(Vec o) const
    {
        return {x + o.x, y + o.y, z + o.z};
    }
    __device__ Vec operator-(Vec o) const
    {
        return {x - o.x, y - o.y, z - o.z};
    }
    __device__ Vec operator*(float s) const
    {
        return {x * s, y * s, z * s};
    }
    __device__ float dot(Vec o) const
    {
        return x * o.x + y * o.y + z * o.z;
    }
    __device__ Vec unit() const
    {
        return *this * rsqrtf(dot(*this));
    }
};

__device__ float3 pull(float3 a, float4 at, float4 other)
{
    float3 r = {other.x - at.x, other.y - at.y, other.z - at.z};
    float square = r.x * r.x + r.y * r.y + r.z * r.z + 1e-4f;
    float inverse = rsqrtf(square), s = other.w * inverse * inverse * inverse;
    a.x += r.x * s;
    a.y += r.y * s;
    a.z += r.z * s;
    return a;
}

__global__ void bodies(const float4 *at, float4 *velocity, int n, float step)
{
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 mine = at[i];
    float3 a = {0, 0, 0};
    for (int t = 0; t < n; t += blockDim.x) {
        tile[threadIdx.x] = at[t + threadIdx.x];
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < blockDim.x; j++)
            a = pull(a, mine, tile[j]);
        __syncthreads();
    }
    float4 v = velocity[i];
    v.x += a.x * step;
    v.y += a.y * step;
    v.z += a.z * step;
    velocity[i] = v;
}

__global__ void leapfrog(double3 *at, double3 *velocity, const double3 *force, const double *mass,
                         double step, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double s = step / mass[i];
    velocity[i].x += force[i].x * s;
    velocity[i].y += force[i].y * s;
    velocity[i].z += force[i].z * s;
    at[i].x += velocity[i].x * step;
    at[i].y += velocity[i].y * step;
    at[i].z += velocity[i].z * step;
}

__global__ void lennard_jones(const float4 *at, const int *neighbours, float4 *force, float cut, int most,
                              int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float4 p = at[i];
    float fx = 0, fy = 0, fz = 0, energy = 0;
    for (int k = 0; k < most; k++) {
        int j = neighbours[k * n + i];
        float dx = p.x - at[j].x, dy = p.y - at[j].y, dz = p.z - at[j].z, r2 = dx * dx + dy * dy + dz * dz;
        if (r2 < cut) {
            float i2 = 1 / r2, i6 = i2 * i2 * i2, f = i2 * i6 * (48 * i6 - 24);
            fx += dx * f;
            fy += dy * f;
            fz += dz * f;
            energy += 4 * i6 * (i6 - 1);
        }
    }
    force[i] = make_float4(fx, fy, fz, energy);
}

struct Sphere {
    Vec centre;
    float radius;
    Vec colour;
    float mirror;
};

struct Ray {
    Vec from, to;
};

__device__ bool meets(const Sphere &s, const Ray &r, float &t)
{
    Vec d = r.from - s.centre;
    float b = d.dot(r.to), q = b * b - d.dot(d) + s.radius * s.radius;
    if (q < 0)
        return false;
    float near = -b - sqrtf(q);
    if (near < 1e-3f || near > t)
        return false;
    t = near;
    return true;
}

__global__ void trace(const Sphere *spheres, int count, uchar4 *image, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    Ray ray = {{0, 0, -3}, Vec{x / (float)width - 0.5f, y / (float)height - 0.5f, 1}.unit()};
    Vec sum = {0, 0, 0};
    float weight = 1;
    for (int bounce = 0; bounce < 3; bounce++) {
        float t = 1e30f;
        int hit = -1;
        for (int k = 0; k < count; k++)
            if (meets(spheres[k], ray, t))
                hit = k;
        if (hit < 0)
            break;
        Sphere s = spheres[hit];
        Vec at = ray.from + ray.to * t, normal = (at - s.centre).unit();
        float light = fmaxf(0.1f, normal.dot(Vec{0.5f, 0.7f, -0.5f}));
        sum = sum + s.colour * (weight * light * (1 - s.mirror));
        weight *= s.mirror;
        ray = {at, ray.to - normal * (2 * normal.dot(ray.to))};
    }
    image[y * width + x] = make_uchar4(255 * sum.x, 255 * sum.y, 255 * sum.z, 255);
}

__global__ void mandelbrot(int *out, int width, double left, double top, double step, int most)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, k = 0;
    double cr = left + x * step, ci = top + y * step, r = 0, i = 0;
    while (k < most && r * r + i * i < 4) {
        double t = r * r - i * i + cr;
        i = 2 * r * i + ci;
        r = t;
        k++;
    }
    out[y * width + x] = k;
}

__device__ float normal_sum(float d)
{
    float k = 1 / (1 + 0.2316419f * fabsf(d));
    float c = 0.3989422804f * expf(-0.5f * d * d) *
              (k * (0.31938153f +
                    k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0 ? 1 - c : c;
}

__global__ void options(float2 *call, float2 *put, const float2 *price, const float2 *strike,
                        const float2 *years, float rate, float spread, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float2 c, p;
    for (int k = 0; k < 2; k++) {
        float s = k ? price[i].y : price[i].x, x = k ? strike[i].y : strike[i].x,
              t = k ? years[i].y : years[i].x;
        float root = sqrtf(t), d1 = (logf(s / x) + (rate + 0.5f * spread * spread) * t) / (spread * root),
              d2 = d1 - spread * root;
        float e = expf(-rate * t), value = s * normal_sum(d1) - x * e * normal_sum(d2);
        (k ? c.y : c.x) = value;
        (k ? p.y : p.x) = x * e * (1 - normal_sum(d2)) - s * (1 - normal_sum(d1));
    }
    call[i] = c;
    put[i] = p;
}

__global__ void random_walk(unsigned *state, float *path, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    unsigned s = state[i];
    float x = 100;
    for (int k = 0; k < steps; k++) {
        s = s * 1664525u + 1013904223u;
        float u = (s >> 8) * (1.0f / 16777216) - 0.5f;
        x += x * 0.01f * u;
        path[k * n + i] = x;
    }
    state[i] = s;
}

template <typename T, int TILE> __global__ void multiply(const T *a, const T *b, T *c, int n)
{
    __shared__ T as[TILE][TILE], bs[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    T sum = 0;
    for (int t = 0; t < n; t += TILE) {
        as[threadIdx.y][threadIdx.x] = a[y * n + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + x];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; k++)
            sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}
template __global__ void multiply<float, 16>(const float *, const float *, float *, int);
template __global__ void multiply<double, 8>(const double *, const double *, double *, int);

__global__ void multiply_plain(const float *a, const float *b, float *c, int n, float alpha, float beta)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = alpha * sum + beta * c[y * n + x];
}

__global__ void cholesky_column(double *a, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + k + 1;
    if (i >= n)
        return;
    double l = a[i * n + k] / a[k * n + k];
    for (int j = k + 1; j <= i; j++)
        a[i * n + j] -= l * a[j * n + k];
    a[i * n + k] = l;
}

__global__ void deposit(const float4 *particles, float *grid, int nx, int ny)
{
    float4 p = particles[blockIdx.x * blockDim.x + threadIdx.x];
    int x = (int)p.x, y = (int)p.y;
    float fx = p.x - x, fy = p.y - y;
    atomicAdd(&grid[y * nx + x], p.w * (1 - fx) * (1 - fy));
    atomicAdd(&grid[y * nx + x + 1], p.w * fx * (1 - fy));
    atomicAdd(&grid[(y + 1) * nx + x], p.w * (1 - fx) * fy);
    atomicAdd(&grid[(y + 1) * nx + x + 1], p.w * fx * fy);
}

__global__ void nearest(const float3 *points, const float3 *centres, int *labels, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, best = 0;
    float least = 1e30f;
    for (int c = 0; c < count; c++) {
        float dx = points[i].x - centres[c].x, dy = points[i].y - centres[c].y,
              dz = points[i].z - centres[c].z;
        float d = dx * dx + dy * dy + dz * dz;
        if (d < least) {
            least = d;
            best = c;
        }
    }
    labels[i] = best;
}

__global__ void align_rows(const char *a, const char *b, int *scores, int width, int diagonal, int gap)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1, j = diagonal - i;
    if (j < 1 || j >= width || i >= width)
        return;
    int match = scores[(i - 1) * width + j - 1] + (a[i] == b[j] ? 2 : -1);
    scores[i * width + j] =
        max(max(match, 0), max(scores[(i - 1) * width + j], scores[i * width + j - 1]) - gap);
}

__global__ void polynomial(const double *x, double *y, const double *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double v = x[i], sum = c[n - 1];
    for (int k = n - 2; k >= 0; k--)
        sum = sum * v + c[k];
    y[i] = sum - v * v * c[0] + fma(v, 2.0, 1.0);
}

__global__ void rotate(float2 *p, float angle, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = __sinf(angle), c = __cosf(angle);
        p[i] = {c * p[i].x - s * p[i].y, s * p[i].x + c * p[i].y};
    }
}
