/* nvcc's atomic built-ins __nv_atomic_* (CUDA 12.8 and later), with memory orders __NV_ATOMIC_* and scopes
 * __NV_THREAD_SCOPE_*, for objects of up to 8 bytes. Each is a relaxed atomic operation between the fences
 * that its order requires in its scope: for NVIDIA GPUs, LLVM 19 ignores the order of read-modify-write
 * operations, but not fences. */
#ifndef MT_CUDA_NV_ATOMIC_H
#define MT_CUDA_NV_ATOMIC_H
#ifndef __NV_ATOMIC_RELAXED
#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4
#endif
#define MT_NV static inline __device__ __attribute__((always_inline))
#define MT_NV_VALUE typename __mt_nv_value<T>::type
#define MT_NV_SCOPE int __scope = __NV_THREAD_SCOPE_SYSTEM
#define MT_NV_SIZE static_assert(sizeof(T) <= 8, "__nv_atomic_* of more than 8 bytes: not with clang 19")
#pragma push_macro("T")
#undef T

template <class T> struct __mt_nv_value {
    typedef T type;
};
template <class T> struct __mt_nv_value<const T> {
    typedef T type;
};
template <class T> struct __mt_nv_value<volatile T> {
    typedef T type;
};
template <class T> struct __mt_nv_value<const volatile T> {
    typedef T type;
};

MT_NV void __nv_atomic_thread_fence(int __order, MT_NV_SCOPE)
{
    if (__order == __NV_ATOMIC_RELAXED || __scope == __NV_THREAD_SCOPE_THREAD) {
        return;
    }
    if (__scope == __NV_THREAD_SCOPE_BLOCK) {
        __nvvm_membar_cta();
    } else if (__scope == __NV_THREAD_SCOPE_SYSTEM) {
        __nvvm_membar_sys();
    } else {
        __nvvm_membar_gl();
    }
}

MT_NV void __mt_nv_before(int __order, int __scope)
{
    if (__order >= __NV_ATOMIC_RELEASE) {
        __nv_atomic_thread_fence(__order, __scope);
    }
}

MT_NV void __mt_nv_after(int __order, int __scope)
{
    if (__order != __NV_ATOMIC_RELAXED && __order != __NV_ATOMIC_RELEASE) {
        __nv_atomic_thread_fence(__order, __scope);
    }
}

template <class T> MT_NV void __nv_atomic_load(T *__p, MT_NV_VALUE *__result, int __order, MT_NV_SCOPE)
{
    MT_NV_SIZE;
    if (__order == __NV_ATOMIC_SEQ_CST) {
        __nv_atomic_thread_fence(__order, __scope);
    }
    MT_NV_VALUE __v;
    __atomic_load(__p, &__v, __ATOMIC_RELAXED);
    __mt_nv_after(__order, __scope);
    *__result = __v;
}

template <class T> MT_NV MT_NV_VALUE __nv_atomic_load_n(T *__p, int __order, MT_NV_SCOPE)
{
    MT_NV_VALUE __v;
    __nv_atomic_load(__p, &__v, __order, __scope);
    return __v;
}

template <class T> MT_NV void __nv_atomic_store_n(T *__p, MT_NV_VALUE __v, int __order, MT_NV_SCOPE)
{
    MT_NV_SIZE;
    __mt_nv_before(__order, __scope);
    __atomic_store(__p, &__v, __ATOMIC_RELAXED);
    if (__order == __NV_ATOMIC_SEQ_CST) {
        __nv_atomic_thread_fence(__order, __scope);
    }
}

template <class T> MT_NV void __nv_atomic_store(T *__p, const MT_NV_VALUE *__v, int __order, MT_NV_SCOPE)
{
    __nv_atomic_store_n(__p, *__v, __order, __scope);
}

template <class T> MT_NV MT_NV_VALUE __nv_atomic_exchange_n(T *__p, MT_NV_VALUE __v, int __order, MT_NV_SCOPE)
{
    MT_NV_SIZE;
    MT_NV_VALUE __old;
    __mt_nv_before(__order, __scope);
    __atomic_exchange(__p, &__v, &__old, __ATOMIC_RELAXED);
    __mt_nv_after(__order, __scope);
    return __old;
}

template <class T>
MT_NV void __nv_atomic_exchange(T *__p, const MT_NV_VALUE *__v, MT_NV_VALUE *__result, int __order,
                                MT_NV_SCOPE)
{
    *__result = __nv_atomic_exchange_n(__p, *__v, __order, __scope);
}

template <class T>
MT_NV bool __nv_atomic_compare_exchange_n(T *__p, MT_NV_VALUE *__expected, MT_NV_VALUE __desired, bool,
                                          int __success, int __failure, MT_NV_SCOPE)
{
    MT_NV_SIZE;
    MT_NV_VALUE __seen = *__expected;
    __mt_nv_before(__success, __scope);
    bool __done =
        __atomic_compare_exchange(__p, &__seen, &__desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    __mt_nv_after(__done ? __success : __failure, __scope);
    if (!__done) {
        *__expected = __seen;
    }
    return __done;
}

template <class T>
MT_NV bool __nv_atomic_compare_exchange(T *__p, MT_NV_VALUE *__expected, const MT_NV_VALUE *__desired,
                                        bool __weak, int __success, int __failure, MT_NV_SCOPE)
{
    return __nv_atomic_compare_exchange_n(__p, __expected, *__desired, __weak, __success, __failure, __scope);
}

/* __nv_atomic_fetch_OP returns the old value, __nv_atomic_OP returns nothing. */
#define MT_NV_FETCH(op)                                                                                      \
    template <class T>                                                                                       \
    MT_NV MT_NV_VALUE __nv_atomic_fetch_##op(T *__p, MT_NV_VALUE __v, int __order, MT_NV_SCOPE)              \
    {                                                                                                        \
        MT_NV_SIZE;                                                                                          \
        __mt_nv_before(__order, __scope);                                                                    \
        MT_NV_VALUE __old = __atomic_fetch_##op(__p, __v, __ATOMIC_RELAXED);                                 \
        __mt_nv_after(__order, __scope);                                                                     \
        return __old;                                                                                        \
    }                                                                                                        \
    template <class T> MT_NV void __nv_atomic_##op(T *__p, MT_NV_VALUE __v, int __order, MT_NV_SCOPE)        \
    {                                                                                                        \
        __nv_atomic_fetch_##op(__p, __v, __order, __scope);                                                  \
    }
MT_NV_FETCH(add)
MT_NV_FETCH(sub)
MT_NV_FETCH(min)
MT_NV_FETCH(max)
MT_NV_FETCH(and)
MT_NV_FETCH(or)
MT_NV_FETCH(xor)
#pragma pop_macro("T")
#undef MT_NV
#undef MT_NV_VALUE
#undef MT_NV_SCOPE
#undef MT_NV_SIZE
#undef MT_NV_FETCH
#endif
