/* Interface between libmemtrace-attach.so and libmemtrace.so. */
#ifndef MT_ATTACH_ABI_H
#define MT_ATTACH_ABI_H

/* A function that a static CUDA runtime has and libmemtrace.so lacks. The jump that replaces it leads to
 * __mt_attach_missing with this struct. */
struct mt_attach_missing {
    int said; /* 1 once libmemtrace.so has reported the function */
    char name[76];
};
#define MT_ATTACH_MISSING "__mt_attach_missing"
/* Reports the function's name once; returns cudaErrorNotSupported. */
int __mt_attach_missing(struct mt_attach_missing *m);

/* Path of the library that the program would have loaded without libmemtrace.so in front of it. The auditor
 * writes the path, libmemtrace.so opens it. */
#define MT_ATTACH_PATH 4096
extern char __mt_attach_nvrtc[MT_ATTACH_PATH], __mt_attach_nvjitlink[MT_ATTACH_PATH];
/* Path of the cuRAND library, for libmemtrace-libraries.so, which replaces parts of it. */
extern char __mt_attach_curand[MT_ATTACH_PATH];

/* Files with a static CUDA runtime that was not taken over, so their CUDA calls are in no trace. The auditor
 * writes the path of the first one, then their number. */
struct mt_attach_left {
    unsigned count;
    char path[400];
};
#define MT_ATTACH_LEFT "__mt_attach_left"
#endif
