// Code for a GPU alone, of a kernel whose name has thousands of letters: its launch is an error, and said in
// a line.
#include <cstdio>

template <class A, class B> struct Pair {
};
typedef Pair<int, float> P0;
typedef Pair<P0, P0> P1;
typedef Pair<P1, P1> P2;
typedef Pair<P2, P2> P3;
typedef Pair<P3, P3> P4;
typedef Pair<P4, P4> P5;
typedef Pair<P5, P5> P6;

template <class T> struct Work {
    T nothing;
};
template <class T> __global__ void fill(Work<T> *p)
{
    *(volatile char *)p = 1;
}

int main()
{
    fill<P6><<<1, 1>>>(nullptr);
    return printf("%d\n", cudaGetLastError()) < 0;
}
