/* Accesses and functions that instrumented code tells by calls. */
#include "entry.h"

void __mt_host_block(uint64_t address, uint64_t bytes, uint32_t site)
{
    mt_access(site, address, bytes);
}

void __mt_host_masked(uint64_t address, uint64_t mask, uint64_t element, uint32_t site)
{
    /* One record for each run of neighbouring lanes. */
    for (uint64_t lane = 0; mask;) {
        uint64_t skip = (uint64_t)__builtin_ctzll(mask);
        mask >>= skip;
        lane += skip;
        uint64_t run = ~mask ? (uint64_t)__builtin_ctzll(~mask) : 64;
        mt_access(site, address + lane * element, run * element);
        mask = run < 64 ? mask >> run : 0;
        lane += run;
    }
}

void __mt_host_untraced(void)
{
    struct mt_core_thread *t = mt_thread();
    if (t)
        mt_core_lost(t, 1);
}

/* ---- atomic mode ---- */

static uint32_t short_size(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

void mt_atomic_begin(struct mt_core_thread *t, const struct mt_core_operand *o, unsigned n)
{
    mt_self.locked = 1; /* signals wait from here to the end */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    mt_core_atomic_begin(t, o, n);
}

void __mt_host_begin(uint32_t site, uint64_t address, uint64_t bytes)
{
    if (!mt_atomic) {
        mt_access(site, address, bytes);
        return;
    }
    struct mt_core_thread *t = bytes ? mt_thread() : NULL;
    struct mt_core_operand o = {address, site, short_size(bytes)};
    if (t)
        mt_atomic_begin(t, &o, 1);
}

void __mt_host_begin_copy(uint32_t site, uint64_t from, uint64_t to, uint64_t bytes)
{
    if (!mt_atomic) {
        mt_access(site, from, bytes);
        mt_access(site + 1, to, bytes);
        return;
    }
    struct mt_core_thread *t = bytes ? mt_thread() : NULL;
    struct mt_core_operand o[] = {{from, site, short_size(bytes)}, {to, site + 1, short_size(bytes)}};
    if (t)
        mt_atomic_begin(t, o, 2);
}

void __mt_host_end(uint32_t failed)
{
    struct mt_self *s = &mt_self;
    if (!mt_atomic || !s->core)
        return;
    mt_core_atomic_end(s->core, NULL, 0, failed != 0);
    s->locked = 0;
    if (__builtin_expect(s->deferred, 0))
        mt_run_deferred();
}

/* ---- functions ---- */

void mt_frames_above(uint64_t sp)
{
    struct mt_self *s = &mt_self;
    while (s->frames && s->frame[s->frames - 1].sp < sp) {
        struct mt_frame *f = &s->frame[--s->frames];
        struct mt_core_thread *t = mt_thread();
        if (t)
            mt_core_return(t, f->function, f->sp, 0);
    }
}

void __mt_host_enter(uint32_t function, uint64_t sp, uint64_t a, uint64_t b, uint64_t c)
{
    struct mt_self *s = &mt_self;
    mt_frames_above(sp);
    if (s->frames < MT_FRAMES)
        s->frame[s->frames++] = (struct mt_frame){function, sp};
    struct mt_core_thread *t = mt_thread();
    if (t)
        mt_core_call(t, function, sp, (uint64_t[]){a, b, c});
}

void __mt_host_leave(uint32_t function, uint64_t sp, uint64_t value)
{
    struct mt_self *s = &mt_self;
    mt_frames_above(sp);
    if (s->frames && s->frame[s->frames - 1].sp == sp)
        s->frames--;
    struct mt_core_thread *t = mt_thread();
    if (t)
        mt_core_return(t, function, sp, value);
}

void __mt_host_unwound(uint64_t sp)
{
    if (mt_self.frames)
        mt_frames_above(sp);
}

void __mt_host_annotation(uint32_t function, uint64_t argument)
{
    struct mt_core_thread *t = mt_thread();
    if (t)
        mt_core_call(t, function, 0, (uint64_t[]){argument, 0, 0});
}
