/* Record functions of the GPU (docs/design/pass.md), linked as bitcode into every instrumented device module.
 * Compiled for NVPTX as plain C with convergent functions; warp.h has the operations that C lacks. The pass
 * gives each call the launch's context as the last argument (llvm-pass/gpu/context.c); NULL: the launch is
 * not traced.
 *
 * The lanes that run an access together (after divergence a part of the warp) make one packet; the lowest of
 * them reserves it, and all write it. All lanes of the group hold the same mask, so every warp operation
 * names exactly the lanes that take part in it, wherever they diverge in between. */
#include "format/cta_rule.h"
#include "warp.h"
#include "write.h"

#define NOINLINE __attribute__((noinline))

/* ---- selection of CTAs -------------------------------------------------------------------------- */

static inline struct mt_gpu_context *of_this_cta(struct mt_gpu_context *c)
{
    const uint32_t at[3] = {mt_cta_x(), mt_cta_y(), mt_cta_z()};
    uint64_t linear = at[0] + (uint64_t)mt_grid_x() * (at[1] + (uint64_t)mt_grid_y() * at[2]);
    return mt_cta_is_traced((const struct mt_cta_rule *)c->ctas, linear, at) ? c : 0;
}

/* Called first in a kernel, with its hidden parameter. Returns NULL if its CTA is not traced. */
struct mt_gpu_context *__mt_gpu_begin(struct mt_gpu_context *parameter)
{
    if (!((uint64_t)parameter & MT_CONTEXT_IN_PARTS))
        return parameter;
    return of_this_cta((struct mt_gpu_context *)((char *)parameter - MT_CONTEXT_IN_PARTS));
}

/* Decodes the last two arguments of a record function: kernels pass their parameter unchanged with a bit that
 * holds the result of begin(); other functions pass a context. Returns NULL if nothing is to be recorded. */
static inline struct mt_gpu_context *record_context(uint32_t site, struct mt_gpu_context *c)
{
    return site & MT_SITE_LEFT_OUT ? 0 : (void *)((uint64_t)c & ~(uint64_t)MT_CONTEXT_IN_PARTS);
}

NOINLINE void __mt_gpu_access_global(const void *pointer, uint32_t meta, uint32_t site,
                                     struct mt_gpu_context *c)
{
    if (!(c = record_context(site, c)))
        return;
    mt_write_access(c, write_lanes(meta, site), (uint64_t)pointer, meta, site);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static NOINLINE void record_block(struct mt_gpu_context *c, uint64_t address, uint64_t bytes, uint32_t type,
                                  uint32_t site)
{
    mt_write_block(c, write_lanes(type, site), address, bytes, type, site);
}

void __mt_gpu_access_global_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                              struct mt_gpu_context *c)
{
    if ((c = record_context(site, c)) && bytes)
        record_block(c, (uint64_t)address, bytes, type, site);
}

/* ---- shared and local memory, barriers ----------------------------------------------------------- */

/* Raw traces have no room for these. */
void __mt_gpu_access_space(const void *pointer, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    if (!(c = record_context(site, c)))
        return;
    if (c->spaces || !mt_rec_space(meta >> 28))
        __mt_gpu_access_global(pointer, meta, site, c);
}

void __mt_gpu_access_space_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                             struct mt_gpu_context *c)
{
    if (!(c = record_context(site, c)))
        return;
    if (c->spaces || !mt_rec_space(type))
        __mt_gpu_access_global_n(address, bytes, type, site, c);
}

/* ---- counting instead of recording (option count=only) ------------------------------------------- */

/* Counts an access once for all lanes that run it together. */
static NOINLINE void record_count(struct mt_gpu_context *c, uint32_t meta)
{
    uint32_t mask = write_lanes(meta, 0), n = mt_bits(mask), type = meta >> 28;
    if (type < 3 && mt_lane() == mt_lowest(mask)) {
        mt_count(&c->counts[2 * type], n);
        mt_count(&c->counts[2 * type + 1], (uint64_t)n * (meta & MT_RAW_MAX_SIZE));
    }
}

static NOINLINE void count_block(struct mt_gpu_context *c, uint64_t bytes, uint32_t type)
{
    if (type < 3) {
        mt_count(&c->counts[2 * type], (bytes + MT_RAW_MAX_SIZE - 1) / MT_RAW_MAX_SIZE);
        mt_count(&c->counts[2 * type + 1], bytes);
    }
}

void __mt_gpu_count_global(const void *address, uint32_t meta, uint32_t site, struct mt_gpu_context *c)
{
    (void)address;
    if ((c = record_context(site, c)))
        record_count(c, meta);
}

void __mt_gpu_count_global_n(const void *address, uint64_t bytes, uint32_t type, uint32_t site,
                             struct mt_gpu_context *c)
{
    (void)address;
    if ((c = record_context(site, c)) && bytes)
        count_block(c, bytes, type);
}

void __mt_gpu_untraced(uint32_t note, struct mt_gpu_context *c)
{
    if ((c = record_context(note, c)))
        mt_count(&c->untraced, 1);
}
