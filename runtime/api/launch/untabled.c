/* Kernels of which the runtime has no table: their file was compiled without the plugin or with cpu-
 * image=off, or its image is of another version. */
#define _GNU_SOURCE
#include "untabled.h"
#include "api/entry.h"
#include "api/tables/map.h"
#include "shown.h"
#include "base/demangle.h"
#include "base/fork.h"
#include "base/short.h"
#include "base/source_name.h"
#include "trace/events.h"
#include "trace/selection.h"
#include "trace/trace.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels that were not registered ---- */

static struct mt_module untabled_module = {
    .why = "it was not registered with this runtime (the driver API, or another CUDA runtime, has loaded it)",
    .state = MT_MODULE_LOADED,
    .made.state = MT_MADE_SETTLED,
};
static struct mt_map untabled_known = MT_MAP_INIT; /* by handle */
MT_FORK_TABLE(untabled_known);

struct mt_function *mt_untabled_know(const void *handle, const char *name)
{
    struct mt_function *f = mt_map_get(&untabled_known, handle);
    if (f || !(f = calloc(1, sizeof *f)))
        return f;
    *f = (struct mt_function){.host = handle, .module = &untabled_module};
    f->name = strdup(name ? name : "a kernel of another loader");
    if (f->name && !mt_map_set(&untabled_known, handle, f))
        return f;
    free(f->name);
    free(f);
    return NULL;
}

/* ---- lines ---- */

/* With parameters, as tables have it; the mangled name where the program has no C++ library. */
static char *untabled_signature(const char *mangled)
{
    mt_demangle_prepare();
    char *name = mt_demangle(mangled);
    return name ? name : strdup(mangled);
}

/* The same without the parameters, and the result that templates have. */
static char *untabled_name(const char *signature)
{
    char *name = strdup(signature);
    if (name)
        mt_source_function(name);
    return name;
}

static const char *untabled_keep(char *_Atomic *place, char *made)
{
    char *there = NULL;
    if (made && atomic_compare_exchange_strong(place, &there, made))
        return made;
    free(made); /* another thread was faster, or there is no memory */
    return there;
}

static void untabled_names(struct mt_function *f)
{
    if (!f->signature)
        untabled_keep(&f->signature, untabled_signature(f->name));
    if (f->signature && !f->pretty)
        untabled_keep(&f->pretty, untabled_name(f->signature));
}

static struct mt_launch_line untabled_line(struct mt_function *f, const struct mt_launch_config *c,
                                           const struct mt_host_site *site)
{
    untabled_names(f);
    const char *name = f->pretty ? f->pretty : f->name, *signature = f->signature ? f->signature : f->name;
    return (struct mt_launch_line){.kernel = mt_function_shown(f, name, signature),
                                   .source = name,
                                   .mangled = f->name,
                                   .signature = signature,
                                   .grid = {c->grid.x, c->grid.y, c->grid.z},
                                   .block = {c->block.x, c->block.y, c->block.z},
                                   .shared = c->shared,
                                   .cooperative = c->cooperative,
                                   .site = site};
}

void mt_untabled_describe(struct mt_gpu_launch *l, struct mt_function *f, const struct mt_launch_config *c,
                          const struct mt_host_site *site)
{
    mt_module_untraced(f->module, f->name);
    *l = (struct mt_gpu_launch){.symbol = f->host,
                                .stream = mt_stream_named(c->stream),
                                .cooperative = c->cooperative,
                                .line = untabled_line(f, c, site)};
}

void mt_untabled_refused(struct mt_stream *s, struct mt_function *f, const struct mt_launch_config *c,
                         const struct mt_host_site *site, int status)
{
    char why[256];
    struct mt_launch_line line = untabled_line(f, c, site);
    line.called = mt_event_next();
    if (!mt_tracing() || !mt_selection_takes(&line))
        return;
    struct mt_trace *t = mt_stream_trace(s);
    snprintf(why, sizeof why, "kernel %s has no code for the CPU device and did not run",
             mt_short(line.kernel).text);
    mt_trace_miss(t, why);
    mt_trace_begin(NULL, &line);
    line.stream = mt_trace_number(t);
    line.status = status;
    mt_trace_end(NULL, &line);
}
