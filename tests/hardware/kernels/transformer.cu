// A transformer's layers as training code in plain CUDA has them: rows by threads, by warps,
// by packs of 16 bytes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T> struct alignas(16) Pack {
    static constexpr int SIZE = 16 / sizeof(T);
    T values[SIZE];
    __device__ T &operator[](int i)
    {
        return values[i];
    }
    __device__ const T &operator[](int i) const
    {
        return values[i];
    }
};

template <typename T> __device__ Pack<T> load_pack(const T *p)
{
    return *reinterpret_cast<const Pack<T> *>(p);
}
template <typename T> __device__ void store_pack(T *p, Pack<T> v)
{
    *reinterpret_cast<Pack<T> *>(p) = v;
}
template <typename T> __device__ Pack<T> load_pack_streaming(const T *p)
{
    int4 bits = __ldcs(reinterpret_cast<const int4 *>(p));
    Pack<T> v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

__device__ float warp_sum(float x)
{
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

__device__ float warp_max(float x)
{
    for (int offset = 16; offset > 0; offset /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, offset));
    return x;
}

__device__ float block_sum(float x)
{
    __shared__ float part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_sum(x);
    if (lane == 0)
        part[warp] = x;
    __syncthreads();
    x = lane < blockDim.x / 32 ? part[lane] : 0;
    return warp_sum(x);
}

__global__ void encode(float *out, const int *tokens, const float *words, const float *places, int rows,
                       int time, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * time * width)
        return;
    int row = i / width, column = i % width;
    out[i] = words[tokens[row] * width + column] + places[row % time * width + column];
}

__global__ void encode_vector(float4 *out, const int *tokens, const float4 *words, const float4 *places,
                              int n, int time, int width4)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int row = i / width4, column = i % width4;
    float4 a = words[tokens[row] * width4 + column], b = places[row % time * width4 + column];
    out[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__global__ void encode_pack(__nv_bfloat16 *out, const int *tokens, const __nv_bfloat16 *words,
                            const __nv_bfloat16 *places, int n, int time, int width)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * Pack<__nv_bfloat16>::SIZE;
    if (i >= n)
        return;
    int row = i / width, column = i % width;
    Pack<__nv_bfloat16> a = load_pack_streaming(words + tokens[row] * width + column);
    Pack<__nv_bfloat16> b = load_pack_streaming(places + row % time * width + column), sum;
    for (int k = 0; k < sum.SIZE; k++)
        sum[k] = (__nv_bfloat16)((float)a[k] + (float)b[k]);
    store_pack(out + i, sum);
}

__global__ void encode_backward(float *words, float *places, const float *gradient, const int *tokens,
                                int rows, int time, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * time * width)
        return;
    int row = i / width, column = i % width;
    atomicAdd(words + tokens[row] * width + column, gradient[i]);
    atomicAdd(&places[row % time * width + column], gradient[i]);
}

__global__ void layernorm_row(float *out, float *means, float *scales, const float *in, const float *weight,
                              const float *bias, int rows, int width)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const float *x = in + row * width;
    float mean = 0, variance = 0;
    for (int i = 0; i < width; i++)
        mean += x[i];
    mean /= width;
    for (int i = 0; i < width; i++)
        variance += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(variance / width + 1e-5f);
    for (int i = 0; i < width; i++)
        out[row * width + i] = (x[i] - mean) * scale * weight[i] + bias[i];
    means[row] = mean;
    scales[row] = scale;
}

__global__ void layernorm_warp(float *__restrict__ out, float *__restrict__ means, float *__restrict__ scales,
                               const float *__restrict__ in, const float *__restrict__ weight,
                               const float *__restrict__ bias, int rows, int width)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const float *x = in + row * width;
    float sum = 0, squares = 0;
    for (int i = lane; i < width; i += 32) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    float mean = warp_sum(sum) / width;
    float scale = rsqrtf(warp_sum(squares) / width - mean * mean + 1e-5f);
    if (lane == 0) {
        __stcs(means + row, mean);
        __stcs(scales + row, scale);
    }
    for (int i = lane; i < width; i += 32)
        __stcs(out + row * width + i, (__ldcs(x + i) - mean) * scale * weight[i] + bias[i]);
}

__global__ void layernorm_pack(__half *out, const __half *in, const __half *weight, const __half *bias,
                               int rows, int width)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows)
        return;
    float sum = 0;
    for (int i = threadIdx.x * 8; i < width; i += 256) {
        Pack<__half> v = load_pack(in + row * width + i);
        for (int k = 0; k < 8; k++)
            sum += (float)v[k];
    }
    float mean = warp_sum(sum) / width, spread = 0;
    for (int i = threadIdx.x * 8; i < width; i += 256) {
        Pack<__half> v = load_pack(in + row * width + i);
        for (int k = 0; k < 8; k++)
            spread += ((float)v[k] - mean) * ((float)v[k] - mean);
    }
    float scale = rsqrtf(warp_sum(spread) / width + 1e-5f);
    for (int i = threadIdx.x * 8; i < width; i += 256) {
        Pack<__half> v = load_pack(in + row * width + i), w = load_pack(weight + i), b = load_pack(bias + i);
        for (int k = 0; k < 8; k++)
            v[k] = (__half)(((float)v[k] - mean) * scale * (float)w[k] + (float)b[k]);
        store_pack(out + row * width + i, v);
    }
}

__global__ void layernorm_backward(float *d_in, float *d_weight, float *d_bias, const float *d_out,
                                   const float *in, const float *weight, const float *means,
                                   const float *scales, int rows, int width)
{
    extern __shared__ float shared[];
    float *bias_part = shared, *weight_part = shared + width;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        bias_part[i] = weight_part[i] = 0;
    __syncthreads();
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row < rows) {
        float mean = means[row], scale = scales[row], a = 0, b = 0;
        for (int i = lane; i < width; i += 32) {
            float norm = (in[row * width + i] - mean) * scale, d = weight[i] * d_out[row * width + i];
            a += d;
            b += d * norm;
        }
        a = warp_sum(a) / width;
        b = warp_sum(b) / width;
        for (int i = lane; i < width; i += 32) {
            float norm = (in[row * width + i] - mean) * scale, d = weight[i] * d_out[row * width + i];
            atomicAdd(&bias_part[i], d_out[row * width + i]);
            atomicAdd(&weight_part[i], norm * d_out[row * width + i]);
            d_in[row * width + i] += (d - a - norm * b) * scale;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        atomicAdd(&d_bias[i], bias_part[i]);
        atomicAdd(&d_weight[i], weight_part[i]);
    }
}

__global__ void rmsnorm(float *out, const float *in, const float *weight, int width)
{
    const float *x = in + blockIdx.x * width;
    float squares = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        squares += x[i] * x[i];
    float scale = rsqrtf(block_sum(squares) / width + 1e-6f);
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        out[blockIdx.x * width + i] = scale * x[i] * weight[i];
}

__global__ void softmax_online(float *out, const float *in, int rows, int width)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float most = -1e30f, sum = 0;
    for (int i = lane; i < width; i += 32) {
        float x = in[row * width + i], before = most;
        most = fmaxf(most, x);
        sum = sum * expf(before - most) + expf(x - most);
    }
    float all = warp_max(most);
    sum = warp_sum(sum * expf(most - all));
    for (int i = lane; i < width; i += 32)
        out[row * width + i] = expf(in[row * width + i] - all) / sum;
}

__global__ void softmax_causal(float *out, const float *in, float scale, int n, int time)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n)
        return;
    int own = row % time, quarters = (own + 1) / 4;
    const float4 *x = reinterpret_cast<const float4 *>(in + row * time);
    float most = -1e30f, sum = 0;
    for (int i = lane; i < quarters; i += 32) {
        float4 v = x[i];
        float before = most;
        most = fmaxf(fmaxf(most, fmaxf(v.x, v.y)), fmaxf(v.z, v.w));
        sum *= expf(scale * (before - most));
        sum += expf(scale * (v.x - most)) + expf(scale * (v.y - most)) + expf(scale * (v.z - most)) +
               expf(scale * (v.w - most));
    }
    if (4 * quarters + lane <= own) {
        float before = most, v = in[row * time + 4 * quarters + lane];
        most = fmaxf(most, v);
        sum = sum * expf(scale * (before - most)) + expf(scale * (v - most));
    }
    float all = warp_max(most);
    float norm = 1 / warp_sum(sum * expf(scale * (most - all)));
    for (int i = lane; i <= own; i += 32)
        __stcs(out + row * time + i, expf(scale * (__ldcs(in + row * time + i) - all)) * norm);
}

__global__ void attention_scores(float *scores, const float *qkv, int batch, int time, int heads, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * heads * time * time)
        return;
    int key = i % time, query = i / time % time, head = i / (time * time) % heads,
        b = i / (time * time * heads);
    if (key > query) {
        scores[i] = -INFINITY;
        return;
    }
    int width = heads * size;
    const float *q = qkv + (b * time + query) * 3 * width + head * size;
    const float *k = qkv + (b * time + key) * 3 * width + width + head * size;
    float sum = 0;
    for (int c = 0; c < size; c++)
        sum += q[c] * k[c];
    scores[i] = sum * rsqrtf((float)size);
}

template <int SIZE>
__global__ void attention_flash(const float *__restrict__ q, const float *__restrict__ k,
                                const float *__restrict__ v, float *__restrict__ out, int time, float scale)
{
    __shared__ float keys[32][SIZE], values[32][SIZE];
    int row = blockIdx.x * 32 + threadIdx.x;
    float mine[SIZE], sum[SIZE] = {}, most = -1e30f, norm = 0;
    for (int c = 0; c < SIZE; c++)
        mine[c] = q[row * SIZE + c];
    for (int tile = 0; tile < time; tile += 32) {
        for (int c = 0; c < SIZE; c++) {
            keys[threadIdx.x][c] = k[(tile + threadIdx.x) * SIZE + c];
            values[threadIdx.x][c] = v[(tile + threadIdx.x) * SIZE + c];
        }
        __syncthreads();
        for (int j = 0; j < 32; j++) {
            float s = 0;
            for (int c = 0; c < SIZE; c++)
                s += mine[c] * keys[j][c];
            s *= scale;
            float next = fmaxf(most, s), old = __expf(most - next), weight = __expf(s - next);
            norm = norm * old + weight;
            for (int c = 0; c < SIZE; c++)
                sum[c] = sum[c] * old + weight * values[j][c];
            most = next;
        }
        __syncthreads();
    }
    for (int c = 0; c < SIZE; c++)
        out[row * SIZE + c] = sum[c] / norm;
}
template __global__ void attention_flash<4>(const float *, const float *, const float *, float *, int, float);
template __global__ void attention_flash<8>(const float *, const float *, const float *, float *, int, float);

__global__ void split_heads(__half *q, __half *k, __half *v, const __half *qkv, int time, int heads, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int c = i % size, t = i / size % time, h = i / (size * time) % heads, b = i / (size * time * heads);
    int from = ((b * time + t) * 3 * heads + h) * size + c;
    q[i] = __ldcs(qkv + from);
    k[i] = __ldcs(qkv + from + heads * size);
    v[i] = __ldcs(qkv + from + 2 * heads * size);
}

__global__ void rotate_half(float2 *x, const float2 *angles, int pairs, int heads)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float2 v = x[i], a = angles[i / (pairs * heads) * pairs + i % pairs];
    x[i] = make_float2(v.x * a.x - v.y * a.y, v.x * a.y + v.y * a.x);
}

__device__ float gelu_of(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

__global__ void gelu(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = gelu_of(in[i]);
}

__global__ void gelu_pack(__nv_bfloat16 *out, const __nv_bfloat16 *in)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    Pack<__nv_bfloat16> v = load_pack_streaming(in + i);
    for (int k = 0; k < 8; k++)
        v[k] = (__nv_bfloat16)gelu_of((float)v[k]);
    store_pack(out + i, v);
}

__global__ void gelu_backward(float *d_in, const float *in, const float *d_out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i], t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x)), c = coshf(x);
    d_in[i] = (0.5f * (1 + t) + x * 0.5f / (c * c) * 0.7978845608f * (1 + 3 * 0.044715f * x * x)) * d_out[i];
}

__global__ void swiglu(float4 *out, const float4 *gate, const float4 *up, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 g = gate[i], u = up[i];
        out[i] = {g.x / (1 + expf(-g.x)) * u.x, g.y / (1 + expf(-g.y)) * u.y, g.z / (1 + expf(-g.z)) * u.z,
                  g.w / (1 + expf(-g.w)) * u.w};
    }
}

__global__ void residual(float *out, const float *a, const float *b, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i < n)
        for (int k = 0; k < 4; k++)
            out[i + k] = a[i + k] + b[i + k];
}

__global__ void cross_entropy(float *losses, float *gradient, const float *scores, const int *targets,
                              int width, int padded)
{
    const float *x = scores + (long)blockIdx.x * padded;
    int target = targets[blockIdx.x];
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        sum += expf(x[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        losses[blockIdx.x] = -logf(expf(x[target]) / sum);
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        gradient[(long)blockIdx.x * padded + i] = expf(x[i]) / sum - (i == target ? 1.0f : 0.0f);
}

template <typename P>
__global__ void adam(P *parameters, float *master, const P *gradients, float *first, float *second, long n,
                     float rate, float beta1, float beta2, float correct1, float correct2, float epsilon,
                     float decay)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float g = (float)gradients[i];
    float m = first[i], v = second[i];
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * (g * g);
    first[i] = m;
    second[i] = v;
    float old = master ? master[i] : (float)parameters[i];
    float value = old - rate * (m / correct1 / (sqrtf(v / correct2) + epsilon) + decay * old);
    parameters[i] = (P)value;
    if (master)
        master[i] = value;
}
template __global__ void adam<float>(float *, float *, const float *, float *, float *, long, float, float,
                                     float, float, float, float, float);
template __global__ void adam<__nv_bfloat16>(__nv_bfloat16 *, float *, const __nv_bfloat16 *, float *,
                                             float *, long, float, float, float, float, float, float, float);

__global__ void norm_squared(float *out, const __nv_bfloat16 *in, size_t n)
{
    float sum = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        sum += (float)in[i] * (float)in[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd(out, sum);
}

__global__ void bias_gradient(float *d_bias, const float *d_out, int rows, int width)
{
    __shared__ float part[8][32];
    int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int row = threadIdx.y; row < rows; row += 8)
        sum += d_out[row * width + column];
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int k = 1; k < 8; k++)
            sum += part[k][threadIdx.x];
        d_bias[column] += sum;
    }
}
