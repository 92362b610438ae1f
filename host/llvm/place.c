/* Location of a call that allocates: set by the pass just before it, or at least its module and symbol. */
#include "entry.h"
#include <dlfcn.h>
#include <stdio.h>

int mt_locate(uint64_t ip, struct mt_core_location *place)
{
    const struct mt_host_alloc_location *known = mt_self.place;
    Dl_info info = {0};
    *place = (struct mt_core_location){0};
    int found = dladdr((void *)(uintptr_t)ip, &info) != 0;
    if (found && info.dli_fname)
        snprintf(place->module, sizeof place->module, "%s", info.dli_fname);
    if (known) {
        snprintf(place->file, sizeof place->file, "%s", known->file);
        snprintf(place->function, sizeof place->function, "%s", known->function);
        place->line = known->line;
        place->column = known->column;
    } else if (found && info.dli_sname) {
        snprintf(place->function, sizeof place->function, "%s", info.dli_sname);
    }
    return known || found ? 0 : -1;
}
