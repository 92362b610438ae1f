/* A linker inside mt-ptx (linker.cpp). Only a wheel's mt-ptx has it; elsewhere the function is NULL. */
#ifndef MT_TOOLS_MT_PTX_LINKER_H
#define MT_TOOLS_MT_PTX_LINKER_H
#ifdef __cplusplus
extern "C" {
#endif

#define MT_PTX_LINKER "ld.lld" /* first argument that makes mt-ptx the linker; also LLD's own name */
/* Runs the linker; argv[0] is that name. Returns the exit code. */
__attribute__((weak)) int mt_ptxtool_linker(int argc, const char *const *argv);

#ifdef __cplusplus
}
#endif
#endif
