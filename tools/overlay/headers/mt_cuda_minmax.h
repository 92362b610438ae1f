/* min and max for host code, for the pairs of types that CUDA declares (crt/math_functions.hpp); clang has
 * them for device code only. They are templates with an unused parameter: functions of the program with equal
 * parameters take precedence, and these take precedence over std::min in programs with "using namespace std".
 */
#ifndef MT_CUDA_MINMAX_H
#define MT_CUDA_MINMAX_H
#define MT_MINMAX(a_type, b_type, type)                                                                      \
    template <int = 0>                                                                                       \
    static inline __host__ __attribute__((always_inline)) type min(const a_type __a, const b_type __b)       \
    {                                                                                                        \
        return (type)__b < (type)__a ? (type)__b : (type)__a;                                                \
    }                                                                                                        \
    template <int = 0>                                                                                       \
    static inline __host__ __attribute__((always_inline)) type max(const a_type __a, const b_type __b)       \
    {                                                                                                        \
        return (type)__a < (type)__b ? (type)__b : (type)__a;                                                \
    }
#define MT_MINMAX_FLOAT(a_type, b_type, type, f)                                                             \
    template <int = 0>                                                                                       \
    static inline __host__ __attribute__((always_inline)) type min(const a_type __a, const b_type __b)       \
    {                                                                                                        \
        return __builtin_fmin##f(__a, __b);                                                                  \
    }                                                                                                        \
    template <int = 0>                                                                                       \
    static inline __host__ __attribute__((always_inline)) type max(const a_type __a, const b_type __b)       \
    {                                                                                                        \
        return __builtin_fmax##f(__a, __b);                                                                  \
    }
#define MT_MINMAX_INTEGER(type)                                                                              \
    MT_MINMAX(type, type, type)                                                                              \
    MT_MINMAX(unsigned type, unsigned type, unsigned type)                                                   \
    MT_MINMAX(type, unsigned type, unsigned type)                                                            \
    MT_MINMAX(unsigned type, type, unsigned type)
MT_MINMAX_INTEGER(int)
MT_MINMAX_INTEGER(long)
MT_MINMAX_INTEGER(long long)
MT_MINMAX_FLOAT(float, float, float, f)
MT_MINMAX_FLOAT(double, double, double, )
MT_MINMAX_FLOAT(float, double, double, )
MT_MINMAX_FLOAT(double, float, double, )
#undef MT_MINMAX_INTEGER
#undef MT_MINMAX_FLOAT
#undef MT_MINMAX
#endif
