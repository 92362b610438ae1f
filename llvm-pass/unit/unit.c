/* State of the pass for one device module: see unit.h. */
#include "unit.h"
#include <stdlib.h>
#include <string.h>

void mt_unit_init(struct mt_unit *u, LLVMModuleRef module)
{
    memset(u, 0, sizeof *u);
    u->module = module;
    u->context = LLVMGetModuleContext(module);
    u->layout = LLVMGetModuleDataLayout(module);
    u->options = &mt_pass_options;
}

void mt_unit_free(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nfacts; i++) {
        free(u->facts[i].name);
        free(u->facts[i].pretty);
        free(u->facts[i].file);
    }
    for (unsigned i = 0; i < u->nkernels; i++) {
        free(u->kernels[i].name);
        free(u->kernels[i].pretty);
        free(u->kernels[i].signature);
        free(u->kernels[i].file);
    }
    for (unsigned i = 0; i < u->nsites; i++) {
        free(u->sites[i].file);
        free(u->sites[i].function);
        free(u->sites[i].variable);
    }
    for (unsigned i = 0; i < u->nnotes; i++) {
        free(u->notes[i].what);
        free(u->notes[i].file);
    }
    free(u->facts);
    free(u->kernels);
    free(u->sites);
    free(u->site_variable);
    free(u->notes);
    free(u->locals);
}
