/* A linker within mt-ptx (linker.cpp), which only a wheel's has: elsewhere the function is NULL. */
#ifndef MT_TOOLS_MT_PTX_LINKER_H
#define MT_TOOLS_MT_PTX_LINKER_H
#ifdef __cplusplus
extern "C" {
#endif

#define MT_PTX_LINKER "ld.lld" /* mt-ptx's first argument when it is to be the linker, and LLD's own name */
/* argv[0] is that name. The exit code. */
__attribute__((weak)) int mt_ptxtool_linker(int argc, const char *const *argv);

#ifdef __cplusplus
}
#endif
#endif
