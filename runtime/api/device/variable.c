/* Device variables as the program registers them. */
#include "module.h"
#include "api/entry.h"
#include "heap.h"
#include "api/tables/map.h"
#include "base/fork.h"
#include "base/report.h"
#include "base/short.h"
#include <stdlib.h>
#include <string.h>

static struct mt_map variables = MT_MAP_INIT;
MT_FORK_TABLE(variables);

struct mt_variable *mt_variable_find(const void *host)
{
    mt_modules_load();
    struct mt_variable *v = host ? mt_map_get(&variables, host) : NULL;
    if (v)
        mt_module_need(v->module);
    return v;
}

/* ---- registration, as compiled code calls it ---- */

static struct mt_variable *variable_add(void **handle, const void *host, void **managed, char *device,
                                        const char *name, int ext, size_t size, int constant, int global)
{
    struct mt_module *m = (struct mt_module *)handle;
    struct mt_variable *v = m ? calloc(1, sizeof *v) : NULL;
    if (!v || !(v->name = strdup(name)) || mt_map_set(&variables, host, v)) {
        mt_report("out of memory: device variable %s is not registered", mt_short(name).text);
        return NULL;
    }
    v->host = host;
    v->managed = managed;
    v->device = device;
    v->ext = ext;
    v->size = size;
    v->constant = constant;
    v->global = global;
    v->module = m;
    mt_modules_enter();
    v->next = m->variables;
    m->variables = v;
    mt_modules_leave();
    return v;
}

void rec___cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                           int constant, int global)
{
    variable_add(handle, host, NULL, device, name, ext, size, constant, global);
}

void rec___cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
                                  size_t size, int constant, int global)
{
    variable_add(handle, host, host, device, name, ext, size, constant, global);
}

/* What the pass makes of the registration of such a variable. */
__attribute__((visibility("default"))) void __mt_register_managed(void **handle, void *host, const char *name,
                                                                  size_t size)
{
    struct mt_variable *v = variable_add(handle, host, NULL, NULL, name, 0, size, 0, 0);
    if (v)
        v->own = 1;
}

void rec___cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size)
{
    variable_add(handle, host, NULL, host, name, 0, size, 0, 1);
}

/* Texture and surface references: gone from CUDA 12; what uses them is reported where it is called. */
void rec___cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name,
                               int dim, int norm, int ext)
{
    mt_say("texture reference %s is not registered: texture references are not supported", name);
}

void rec___cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name,
                               int dim, int ext)
{
    mt_say("surface reference %s is not registered: surface references are not supported", name);
}

/* ---- of a module ---- */

int mt_variables_are_managed(const struct mt_module *m)
{
    const struct mt_variable *v = m->variables;
    while (v && !v->managed && !v->own)
        v = v->next;
    return v != NULL;
}

void mt_variable_lies(struct mt_variable *v, void *address)
{
    v->address = address;
    if (!v->managed || !address)
        return;
    *v->managed = address;
    if (mt_map_set(&variables, address, v)) /* nvcc's host code names it by that */
        mt_report("out of memory: device variable %s has no address", mt_short(v->name).text);
}

int mt_variables_are_for_gpu(const struct mt_module *m)
{
    for (const struct mt_variable *v = m->variables; v; v = v->next)
        if (v->own) {
            mt_report("clang 19 has no __managed__ variables for GPUs (%s): the kernels of its file do not "
                      "run there. "
                      "Compile the program with nvcc and run it with mt-run",
                      mt_short(v->name).text);
            return 0;
        }
    return 1;
}

void mt_variables_to_gpu(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next)
        if (v->managed)
            MT_NEXT(__cudaRegisterManagedVar)
    (m->real, v->managed, v->device, v->name, v->ext, v->size, v->constant, v->global);
    else MT_NEXT(__cudaRegisterVar)(m->real, (char *)(uintptr_t)v->host, v->device, v->name, v->ext, v->size,
                                    v->constant, v->global);
}

void mt_variables_forget(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next) {
        mt_map_drop(&variables, v->host, v);
        if (v->managed)
            mt_map_drop(&variables, v->address, v);
        if (v->own)
            mt_heap_free(v->address, 1u << MT_HEAP_SYMBOL);
    }
}
