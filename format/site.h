/* Source place of a CUDA call in host code, as the pass emits it (docs/design/pass.md,
 * "Host side of the pass"). */
#ifndef MT_FORMAT_SITE_H
#define MT_FORMAT_SITE_H
#include <stdint.h>

struct mt_host_site {
    const char *file, *function, *name; /* name: callee, or the kernel's mangled stub */
    uint32_t line, column;
};
/* What a variable of the caller is called that may have got memory from a call (llvm-pass/host/host_names.c).
 */
struct mt_host_name {
    const char *name, *rest; /* "s->col[]"; what is behind its first variable, ".col[]" */
    uint32_t bytes, record;  /* of what it is; enum mt_name_record */
};
/* A pointer; a record or array, which has pointers somewhere in it; a record that a pointer leads to. */
enum mt_name_record { MT_NAME_POINTER, MT_NAME_RECORD, MT_NAME_POINTED };
#endif
