/* Entry points of the libraries: a jump through a slot for each name, as in runtime/api. Its first use sets
 * the slot to the stand-in's function, on a GPU to that of the real library. gen_libraries.py makes tables
 * and jumps. */
#ifndef MT_LIBRARIES_ENTRY_H
#define MT_LIBRARIES_ENTRY_H
#include <stdint.h>

struct mt_lib_library {
    const char *name, *soname;
    int unsupported; /* its status for what is not there */
};
struct mt_lib_entry {
    const char *name;
    int library, said;
};
extern const struct mt_lib_library mt_lib_libraries[];
extern struct mt_lib_entry mt_lib_entries[];
extern void *mt_lib_slots[], *const mt_lib_impls[];
/* The slot's target; called by the jumps' first use (api/first.S). */
void *mt_lib_resolve(uint32_t index);
#endif
