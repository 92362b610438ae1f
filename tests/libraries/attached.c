/* A program that asks for libraries of NVIDIA, under memtrace run. Its cuRAND is the test's own: all numbers
 * are 1.
 */
int cublasCreate_v2(void **handle);
int cublasDscal_v2(void *handle, int n, const double *alpha, double *x, int incx);
int cudaMalloc(void **p, unsigned long bytes);
int cudaMemset(void *p, int value, unsigned long bytes);
int cudaMemcpy(void *to, const void *from, unsigned long bytes, int kind);
int curandCreateGenerator(void **generator, int type);
int curandGenerateUniformDouble(void *generator, double *p, unsigned long n);

int main(void)
{
    void *handle, *x, *g;
    double alpha = 2, host[4];
    return cublasCreate_v2(&handle) || cudaMalloc(&x, 64) || cudaMemset(x, 0, 64) ||
           cublasDscal_v2(handle, 4, &alpha, x, 2) || curandCreateGenerator(&g, 161) ||
           curandGenerateUniformDouble(g, x, 3) || cudaMemcpy(host, x, sizeof host, 2) || host[0] != 1 ||
           host[2] != 1 || host[3] != 0;
}
