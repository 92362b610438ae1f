/* NVIDIA's libraries that compile and link device code at run time, before which libmemtrace.so stands: NVRTC
 * (nvrtc.c), nvJitLink (nvjitlink.c). Their functions are exported under the version nodes of CUDA 11 to 13;
 * none has more than six arguments, which are integers or pointers. */
#ifndef MT_DRIVER_COMPILER_H
#define MT_DRIVER_COMPILER_H
#include <stddef.h>
#include <stdint.h>

typedef long mt_compiler_function(long, long, long, long, long, long);

struct mt_compiler {
    const char *place;  /* written by the auditor: where the program would have found it, or "" */
    const char *file;   /* "libnvrtc.so" */
    int majors[2];      /* tried in this order where there was no auditor */
    void *_Atomic real; /* once it is open */
    _Atomic int said;
};
/* A function of the real library, or NULL; said once. Not for a thread that holds a lock. */
mt_compiler_function *mt_compiler_find(struct mt_compiler *c, const char *name);

/* For the hook in Python: a folder of packages in which NVIDIA's may be. */
__attribute__((visibility("default"))) void __mt_python_packages(const char *folder);

/* One exported name under its node ("@" and "@@" as for .symver) for the function `f` of the same file. */
#define MT_COMPILER_NODE(major, name, node, f)                                                               \
    ".globl v" #major "." #name "\n.type v" #major "." #name ", @function\n.set v" #major "." #name ", " #f  \
    "\n.symver v" #major "." #name ", " #name node "\n"
#endif
