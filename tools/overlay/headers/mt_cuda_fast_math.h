/* Redirects libdevice's functions, which clang's headers (read after this one) call by name, to what nvcc
 * computes. */
#ifndef MT_CUDA_FAST_MATH_H
#define MT_CUDA_FAST_MATH_H
/* libdevice asks the compiler for the precision of square roots; clang 19 cannot answer, and gets the
 * approximate one. (MT_CUDA_APPROX_SQRT: -prec-sqrt=false.) */
#if !defined(MT_CUDA_APPROX_SQRT) && !defined(__FAST_MATH__)
#define __nv_sqrtf __nv_fsqrt_rn
#endif
/* -use_fast_math: clang has only some of nvcc's fast functions. */
#ifdef __CLANG_GPU_APPROX_TRANSCENDENTALS__
#define __nv_expf __nv_fast_expf
#define __nv_exp10f __nv_fast_exp10f
#define __nv_log10f __nv_fast_log10f
#define __nv_powf __nv_fast_powf
#define __nv_tanf __nv_fast_tanf
#if CUDA_VERSION >= 13000
#define __nv_tanhf mt_fast_tanhf
extern "C" __attribute__((device)) inline float mt_fast_tanhf(float mt_x)
{
    float mt_y;
    __asm__("tanh.approx.f32 %0, %1;" : "=f"(mt_y) : "f"(mt_x));
    return mt_y;
}
#endif
#endif
#endif
