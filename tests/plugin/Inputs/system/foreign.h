#pragma once
// Stands for a library's header.
__device__ inline int foreign(int a)
{
    return a * 5;
}
template <class T> __device__ T foreign_template(T a)
{
    return a;
}
