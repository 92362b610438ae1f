/* A file called libcuda.so.1 for programs that look for one in folders, or for its soname. All that it has is
 * libmemtrace.so's, which it is linked with. */
extern const char mt_driver_is_elsewhere;
const char mt_driver_is_elsewhere = 1;
