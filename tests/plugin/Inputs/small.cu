__global__ void small(int *p)
{
    p[threadIdx.x] = 1;
}
int main()
{
    small<<<1, 1>>>(nullptr);
}
