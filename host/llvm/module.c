/* Instrumented modules (the program and its libraries), which register their tables when loaded. */
#include "entry.h"
#include "base/report.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#define CODES 256u

static struct {
    uint64_t low, high;
} code[CODES];
static uint32_t codes; /* CODES: perhaps more than we know */

int mt_module_code(uint64_t ip)
{
    uint32_t n = __atomic_load_n(&codes, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && n < CODES; i++)
        if (ip >= code[i].low && ip < code[i].high)
            return 1;
    return n == CODES;
}

/* Stores the code range of the object that contains `module`. The dynamic linker lets in one thread at a
 * time. */
static int keep_code(struct dl_phdr_info *info, size_t size, void *module)
{
    int ours = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        ours |=
            p->p_type == PT_LOAD && (uint64_t)(uintptr_t)module - info->dlpi_addr - p->p_vaddr < p->p_memsz;
    }
    for (int i = 0; ours && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t low = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || codes == CODES || mt_module_code(low))
            continue;
        code[codes].low = low;
        code[codes].high = low + p->p_memsz;
        __atomic_store_n(&codes, codes + 1, __ATOMIC_RELEASE);
    }
    return ours;
}

static void define_rows(const struct mt_host_module *m, const char *name)
{
    for (uint32_t i = 0; i < m->nrows; i++) {
        const struct mt_host_row *r = &m->rows[i];
        struct mt_core_site s = {.op = (enum mt_host_op)(r->op & ~MT_HOST_STRONG),
                                 .strong = (r->op & MT_HOST_STRONG) != 0,
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
    mt_enter();
    mt_self.busy++;
    dl_iterate_phdr(keep_code, (void *)(uintptr_t)m);
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
    mt_leave();
}
