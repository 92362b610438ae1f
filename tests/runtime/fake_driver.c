/* The driver in the same library as the runtime that test_forward and test_tables put in the real ones'
 * places: in a folder where the library has the driver's name. */
int cuInit(unsigned flags)
{
    return 0;
}
int cuDeviceGetCount(int *n)
{
    *n = 1;
    return 0;
}
int cuDriverGetVersion(int *v)
{
    *v = 12040;
    return 0;
}
int fake_driver_launches, fake_driver_streams[2]; /* of all; by cuLaunchKernel, and by its variant */
int cuFuncGetName(const char **name, void *f)
{
    *name = "_Z5named";
    return f ? 0 : 400;
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra)
{
    fake_driver_launches += gx == 2 && gy == 3 && gz == 4 && bx == 5 && by == 6 && bz == 7 && shared == 8 &&
                            *(int *)params[0] == 9;
    fake_driver_streams[0]++;
    return f == &fake_driver_launches ? 0 : 700;
}
int cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **params, void **extra)
{
    fake_driver_streams[1]++;
    return 0;
}
