/* Source location of a CUDA call in host code, emitted by the pass (docs/design/pass.md, "Host side of the
 * pass"). */
#ifndef MT_FORMAT_SITE_H
#define MT_FORMAT_SITE_H
#include <stdint.h>

struct mt_host_site {
    const char *file, *function, *name; /* name: callee, or the kernel's mangled stub */
    uint32_t line, column;
};
/* Name of a variable of the caller that may have received memory from a call
 * (llvm-pass/host/host.c). */
struct mt_host_name {
    const char *name, *rest; /* "s->col[]"; rest: the part after the first variable, ".col[]" */
    uint32_t bytes, record;  /* size and kind of the variable; record: enum mt_name_record */
};
/* Pointer; record or array that contains pointers; record that a pointer points to. */
enum mt_name_record { MT_NAME_POINTER, MT_NAME_RECORD, MT_NAME_POINTED };
#endif
