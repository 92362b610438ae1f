/* What libmemtrace-attach.so and libmemtrace.so agree on: a function of a static CUDA runtime that
 * libmemtrace.so lacks. The jump over it leads to __mt_attach_missing with one of these. */
#ifndef MT_ATTACH_ABI_H
#define MT_ATTACH_ABI_H

struct mt_attach_missing {
    int said; /* libmemtrace.so's */
    char name[76];
};
#define MT_ATTACH_MISSING "__mt_attach_missing"
/* Says the name once; returns cudaErrorNotSupported. */
int __mt_attach_missing(struct mt_attach_missing *m);
#endif
