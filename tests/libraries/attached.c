/* A program that asks for libcublas.so.13, under mt-run. */
int cublasCreate_v2(void **handle);
int cublasDscal_v2(void *handle, int n, const double *alpha, double *x, int incx);
int cudaMalloc(void **p, unsigned long bytes);
int cudaMemset(void *p, int value, unsigned long bytes);

int main(void)
{
    void *handle, *x;
    double alpha = 2;
    return cublasCreate_v2(&handle) || cudaMalloc(&x, 64) || cudaMemset(x, 0, 64) ||
           cublasDscal_v2(handle, 4, &alpha, x, 2);
}
