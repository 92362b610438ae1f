/* A program that asks for the libraries of CUDA 13, or with OLDER for those of CUDA 12, under mt-run. */
int cublasCreate_v2(void **handle);
int cublasDscal_v2(void *handle, int n, const double *alpha, double *x, int incx);
int cudaMalloc(void **p, unsigned long bytes);
int cudaMemset(void *p, int value, unsigned long bytes);
int curandCreateGenerator(void **generator, int type);
int curandGenerateUniformDouble(void *generator, double *p, unsigned long n);

int main(int argc, char **argv)
{
    void *handle, *x, *g;
    double alpha = 2;
    return cublasCreate_v2(&handle) || cudaMalloc(&x, 64) || cudaMemset(x, 0, 64) ||
           cublasDscal_v2(handle, 4, &alpha, x, 2) ||
           (argc > 1 && (curandCreateGenerator(&g, 161) || curandGenerateUniformDouble(g, x, 3)));
}
