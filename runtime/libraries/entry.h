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
/* On a GPU a call goes to the real library as it is; to ours, which knows what it reads and writes and then
 * calls the real one; or to the real one, and what it reads and writes is not known. */
enum mt_lib_gpu { MT_LIB_FORWARD, MT_LIB_OURS, MT_LIB_UNKNOWN };
struct mt_lib_entry {
    const char *name;
    int library;
    enum mt_lib_gpu gpu;
    int said;
};
extern const struct mt_lib_library mt_lib_libraries[];
extern struct mt_lib_entry mt_lib_entries[];
extern void *mt_lib_slots[], *const mt_lib_impls[];
/* The slot's target; called by the jumps' first use (api/first.S). */
void *mt_lib_resolve(uint32_t index);
#endif
