/* What libmemtrace-attach.so and libmemtrace.so agree on. */
#ifndef MT_ATTACH_ABI_H
#define MT_ATTACH_ABI_H

/* A function of a static CUDA runtime that libmemtrace.so lacks. The jump over it leads to
 * __mt_attach_missing with one of these. */
struct mt_attach_missing {
    int said; /* libmemtrace.so's */
    char name[76];
};
#define MT_ATTACH_MISSING "__mt_attach_missing"
/* Says the name once; returns cudaErrorNotSupported. */
int __mt_attach_missing(struct mt_attach_missing *m);

/* Where the program would have found a library that libmemtrace.so stands before: the auditor writes the path
 * there, libmemtrace.so opens it. */
#define MT_ATTACH_PATH 4096
extern char __mt_attach_nvrtc[MT_ATTACH_PATH], __mt_attach_nvjitlink[MT_ATTACH_PATH];
/* The same of cuRAND, which libmemtrace-libraries.so needs for what it stands in for. */
extern char __mt_attach_curand[MT_ATTACH_PATH];

/* Files with a CUDA runtime of their own that was left as it is: what they do is in no trace. The auditor
 * writes the first one's path, then the number. */
struct mt_attach_left {
    unsigned count;
    char path[400];
};
#define MT_ATTACH_LEFT "__mt_attach_left"
#endif
