/* Instrumented modules (the program and its libraries) hand over their tables as they are loaded. */
#include "entry.h"
#include "common/report.h"
#include <dlfcn.h>
#include <stdio.h>

static void define_rows(const struct mt_host_module *m, const char *name)
{
    for (uint32_t i = 0; i < m->nrows; i++) {
        const struct mt_host_row *r = &m->rows[i];
        struct mt_core_site s = {.op = (enum mt_host_op)r->op,
                                 .size = r->size,
                                 .line = r->line,
                                 .column = r->column,
                                 .file = m->strings + r->file,
                                 .function = m->strings + r->function,
                                 .module = name,
                                 .variable = m->strings + r->variable};
        mt_core_site_define(*m->base + r->site, &s);
    }
}

static void warn_plain(const char *name)
{
    static int said;
    if (!said++)
        mt_report("%s was built with mt-cc --host: its accesses cannot be put in order with those of other "
                  "threads, and are missing; build it with mt-cc --host=atomic",
                  name);
}

void __mt_host_register(const struct mt_host_module *m)
{
    Dl_info info;
    if (m->abi != MT_HOST_ABI) {
        mt_report("a module of the program was built with another version of memtrace; build it again");
        return;
    }
    if (mt_phase != MT_PHASE_ON)
        return;
    mt_self.busy++;
    const char *name = dladdr(m, &info) && info.dli_fname ? info.dli_fname : "";
    uint32_t base = mt_core_sites_reserve(m->instructions);
    if (base) {
        *m->base = base;
        define_rows(m, name);
    } else {
        mt_report("%s: no memory for the places of its accesses; they have none in the trace", name);
    }
    for (uint32_t i = 0; i < m->nfunctions; i++)
        m->function_ids[i] = mt_core_function(m->strings + m->function_names[i]);
    if (mt_atomic && !(m->flags & MT_HOST_MODULE_ATOMIC))
        warn_plain(name);
    mt_self.busy--;
}
