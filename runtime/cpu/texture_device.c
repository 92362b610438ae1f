/* What device code calls for its texture and surface instructions, and the table of objects. */
#include <stdlib.h>
#include <string.h>
#include "scheduler.h"
#include "texture.h"
#include "base/fork.h"

/* ---- handles: index + 1 of a table whose rows never move ---- */

#define ROW 1024
#define ROWS 1024
struct slot {
    _Atomic(const void *) object;
    _Atomic uint32_t kind;
    uint32_t next_free; /* index + 1 */
};
static struct slot *_Atomic rows[ROWS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static uint32_t used, first_free;

static struct slot *slot_of(uint64_t handle)
{
    uint64_t i = handle - 1;
    struct slot *row =
        i < (uint64_t)ROW * ROWS ? atomic_load_explicit(&rows[i / ROW], memory_order_acquire) : NULL;
    return row ? &row[i % ROW] : NULL;
}

/* Index + 1 of a slot that is free, 0: none. Call with the lock held. */
static uint32_t take_slot(void)
{
    uint32_t handle = first_free;
    if (handle) {
        first_free = slot_of(handle)->next_free;
        return handle;
    }
    if (used == ROW * ROWS)
        return 0;
    if (!rows[used / ROW]) {
        struct slot *row = calloc(ROW, sizeof *row);
        if (!row)
            return 0;
        atomic_store_explicit(&rows[used / ROW], row, memory_order_release);
    }
    return ++used;
}

uint64_t mt_tex_object_add(enum mt_tex_object_kind kind, const void *object)
{
    pthread_mutex_lock(&lock);
    uint32_t handle = take_slot();
    if (handle) {
        struct slot *s = slot_of(handle);
        atomic_store(&s->object, object);
        atomic_store(&s->kind, kind);
    }
    pthread_mutex_unlock(&lock);
    return handle;
}

/* NULL: no such object */
static const void *tex_object_get(enum mt_tex_object_kind kind, uint64_t handle)
{
    struct slot *s = slot_of(handle);
    if (!s || atomic_load_explicit(&s->kind, memory_order_acquire) != kind)
        return NULL;
    return atomic_load_explicit(&s->object, memory_order_relaxed);
}

const void *mt_tex_object_take(enum mt_tex_object_kind kind, uint64_t handle)
{
    const void *object = NULL;
    pthread_mutex_lock(&lock);
    struct slot *s = slot_of(handle);
    if (s && s->kind == kind) {
        object = s->object;
        s->kind = 0;
        s->next_free = first_free;
        first_free = (uint32_t)handle;
    }
    pthread_mutex_unlock(&lock);
    return object;
}

/* ---- device code ---- */

void mt_cpu_tex(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out)
{
    const struct mt_texture *t = tex_object_get(MT_TEX_OBJECT, object);
    uint32_t words[4];
    if (!t)
        mt_fault_fail(MT_ERR_ADDRESS, "0x%llx is not a texture object", (unsigned long long)object);
    if (t->fast && what == t->fast_what)
        t->fast(t, in, words);
    else
        mt_tex_sample(t, what, in, words);
    for (int i = 0; i < 4; i++)
        out[i] = words[i];
}

/* Where an access lies; NULL: nowhere, and the mode says that this is fine. */
static char *surface_at(uint64_t object, uint32_t what, const uint32_t *in)
{
    const struct mt_surface *s = tex_object_get(MT_SURF_OBJECT, object);
    uint32_t geometry = what & MT_TEX_GEOMETRY, mode = what & MT_SURF_MODE;
    if (!s)
        mt_fault_fail(MT_ERR_ADDRESS, "0x%llx is not a surface object", (unsigned long long)object);
    static const unsigned char dims_of[] = {1, 2, 3, 1, 2};
    int layered = geometry >= MT_TEX_A1D, dims = dims_of[geometry];
    int64_t bytes = (int64_t)(what >> MT_SURF_BYTES_AT & 15) * (what >> MT_SURF_COUNT_AT & 7);
    int64_t at[3] = {0, 0, 0};
    const int64_t limit[3] = {(int64_t)s->level.size[0] * s->bytes - bytes, s->level.size[1] - 1,
                              (layered ? s->layers : s->level.size[2]) - 1};
    for (int d = 0; d < dims; d++)
        at[d] = (int32_t)in[layered + d];
    if (layered)
        at[2] = in[0] < (uint32_t)s->layers ? in[0] : (uint32_t)s->layers - 1;
    for (int d = 0; d < 3; d++) {
        if (at[d] >= 0 && at[d] <= limit[d])
            continue;
        if (mode == MT_SURF_ZERO || limit[d] < 0)
            return NULL;
        if (mode != MT_SURF_CLAMP)
            mt_fault_fail(MT_ERR_LAUNCH, "surface access outside: %s %lld of %lld",
                          d ? d == 1 ? "row" : "plane" : "byte", (long long)at[d], (long long)limit[d] + 1);
        at[d] = at[d] < 0 ? 0 : limit[d];
    }
    return s->level.data + (size_t)at[2] * s->level.slice + (size_t)at[1] * s->level.pitch + at[0];
}

void mt_cpu_surf_load(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out)
{
    uint32_t bytes = what >> MT_SURF_BYTES_AT & 15, n = what >> MT_SURF_COUNT_AT & 7;
    const char *p = surface_at(object, what, in);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = 0;
        if (p)
            memcpy(&out[i], p + i * bytes, bytes);
    }
}

void mt_cpu_surf_store(uint64_t object, uint32_t what, const uint32_t *in, const uint64_t *value)
{
    uint32_t bytes = what >> MT_SURF_BYTES_AT & 15, n = what >> MT_SURF_COUNT_AT & 7;
    char *p = surface_at(object, what, in);
    for (uint32_t i = 0; p && i < n; i++)
        memcpy(p + i * bytes, &value[i], bytes);
}

uint32_t mt_cpu_tex_size(uint64_t object, uint32_t dimension)
{
    const struct mt_texture *t = tex_object_get(MT_TEX_OBJECT, object);
    const struct mt_surface *s = tex_object_get(MT_SURF_OBJECT, object);
    if (!t && !s)
        mt_fault_fail(MT_ERR_ADDRESS, "0x%llx is not a texture or surface object",
                      (unsigned long long)object);
    if (dimension >= 3)
        return (uint32_t)(t ? t->layers : s->layers);
    return (uint32_t)(t ? &t->level[0] : &s->level)->size[dimension];
}
