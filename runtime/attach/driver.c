/* Library file named libcuda.so.1 for programs that search folders for it, or for its soname. Everything
 * comes from libmemtrace.so, which it is linked with. */
extern const char mt_driver_is_elsewhere;
const char mt_driver_is_elsewhere = 1;
