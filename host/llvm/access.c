/* Accesses and functions that instrumented code reports by calls. */
#include "entry.h"
#include <string.h>

void __mt_host_block(uint64_t address, uint64_t bytes, uint32_t site)
{
    mt_access(site, address, bytes);
}

/* Makes each run of neighbouring lanes one access. Returns their number. */
static unsigned access_runs(struct mt_core_operand *o, uint64_t address, uint64_t mask, uint64_t element,
                            uint32_t site)
{
    unsigned n = 0;
    for (uint64_t lane = 0; mask;) {
        uint64_t skip = (uint64_t)__builtin_ctzll(mask);
        mask >>= skip;
        lane += skip;
        uint64_t run = ~mask ? (uint64_t)__builtin_ctzll(~mask) : 64;
        o[n++] = (struct mt_core_operand){address + lane * element, site, (uint32_t)(run * element)};
        mask = run < 64 ? mask >> run : 0;
        lane += run;
    }
    return n;
}

static unsigned access_each(struct mt_core_operand *o, const uint64_t *address, uint64_t mask,
                            uint64_t element, uint32_t site)
{
    unsigned n = 0;
    for (; mask; mask &= mask - 1)
        o[n++] = (struct mt_core_operand){address[__builtin_ctzll(mask)], site, (uint32_t)element};
    return n;
}

static void record_all(const struct mt_core_operand *o, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        mt_access(o[i].site, o[i].address, o[i].size);
}

void __mt_host_masked(uint64_t address, uint64_t mask, uint64_t element, uint32_t site)
{
    struct mt_core_operand o[MT_CORE_OPERANDS];
    record_all(o, access_runs(o, address, mask, element, site));
}

void __mt_host_lanes(const uint64_t *address, uint64_t mask, uint64_t element, uint32_t site)
{
    struct mt_core_operand o[MT_CORE_OPERANDS];
    record_all(o, access_each(o, address, mask, element, site));
}

void __mt_host_copied(uint32_t site, uint64_t from, uint64_t to, uint64_t bytes)
{
    if (bytes >= MT_COPY_LEAST && mt_phase == MT_PHASE_ON && mt_llvm_thread())
        mt_core_copied(site, bytes, memcmp((const void *)to, (const void *)from, bytes) == 0);
}

void __mt_host_untraced(void)
{
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    if (t)
        mt_core_lost(t, 1);
    mt_leave();
}

/* ---- atomic mode ---- */

static uint32_t short_size(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

/* Holds signals until the end of the access, which may be a call that pthread_cancel ends. */
static void access_lock(void)
{
    mt_self.locked = 1;
    mt_cancel_back();
}

/* Cleans up after an access that longjmp left before its end. */
static void access_leave(void)
{
    if (!mt_self.locked)
        return;
    mt_self.locked = 0;
    mt_leave();
}

void mt_atomic_begin(const struct mt_core_operand *o, unsigned n)
{
    access_leave();
    mt_enter_access();
    struct mt_core_thread *t = n ? mt_llvm_thread() : NULL;
    if (!t) {
        mt_leave();
        return;
    }
    mt_core_atomic_begin(t, o, n);
    access_lock();
}

void mt_begin(uint32_t site, uint64_t address, uint64_t bytes)
{
    access_leave();
    if (__builtin_expect(mt_self.state == 2 || mt_phase == MT_PHASE_OFF, 0)) {
        mt_waste();
        return;
    }
    if (!mt_atomic) {
        mt_access(site, address, bytes);
        return;
    }
    mt_enter_access();
    struct mt_core_thread *t = bytes ? mt_llvm_thread() : NULL;
    if (!t) {
        mt_leave();
        return;
    }
    mt_core_atomic_begin_one(t, address, site, short_size(bytes));
    access_lock();
}

void __mt_host_begin_copy(uint32_t site, uint64_t from, uint64_t to, uint64_t bytes)
{
    if (!mt_atomic) {
        mt_access(site, from, bytes);
        mt_access(site + 1, to, bytes);
        return;
    }
    struct mt_core_operand o[] = {{from, site, short_size(bytes)}, {to, site + 1, short_size(bytes)}};
    mt_atomic_begin(o, bytes ? 2 : 0);
}

/* Begins an access; a build for atomic mode that runs in another mode records as any other. */
static void begin_all(const struct mt_core_operand *o, unsigned n)
{
    if (mt_atomic)
        mt_atomic_begin(o, n);
    else
        record_all(o, n);
}

void __mt_host_begin_masked(uint64_t address, uint64_t mask, uint64_t element, uint32_t site)
{
    struct mt_core_operand o[MT_CORE_OPERANDS];
    begin_all(o, access_runs(o, address, mask, element, site));
}

void __mt_host_begin_lanes(const uint64_t *address, uint64_t mask, uint64_t element, uint32_t site)
{
    struct mt_core_operand o[MT_CORE_OPERANDS];
    begin_all(o, access_each(o, address, mask, element, site));
}

void mt_end(uint32_t failed)
{
    struct mt_self *s = &mt_self;
    if (!mt_atomic || !s->core)
        return;
    if (s->locked)
        mt_cancel_defer();
    else
        mt_enter_access();
    mt_core_atomic_end(s->core, NULL, 0, failed != 0);
    s->locked = 0;
    mt_leave();
}

/* ---- functions ---- */

/* Removes functions that an exception has left. */
static void access_left(uint64_t sp)
{
    struct mt_self *s = &mt_self;
    while (s->frames && s->frame[s->frames - 1].sp < sp) {
        struct mt_frame *f = &s->frame[--s->frames];
        struct mt_core_thread *t = mt_llvm_thread();
        if (t)
            mt_core_return(t, f->function, f->sp, 0);
    }
}

/* Returns 1 if `f` is this entry or return, and forgets it. */
static int was_told(struct mt_frame *f, uint32_t function, uint64_t sp)
{
    int same = f->function == function && f->sp == sp;
    if (same)
        f->function = 0;
    return same;
}

void __mt_host_enter(uint32_t function, uint64_t sp, uint64_t a, uint64_t b, uint64_t c)
{
    struct mt_self *s = &mt_self;
    uint32_t caller = function & MT_HOST_CALLER;
    function &= ~MT_HOST_CALLER;
    if (!caller && was_told(&s->told, function, sp))
        return;
    s->told = (struct mt_frame){caller ? function : 0, sp};
    mt_enter();
    access_left(sp);
    if (s->frames < MT_FRAMES)
        s->frame[s->frames++] = (struct mt_frame){function, sp};
    struct mt_core_thread *t = mt_llvm_thread();
    if (t)
        mt_core_call(t, function, sp, (uint64_t[]){a, b, c});
    mt_leave();
}

void __mt_host_leave(uint32_t function, uint64_t sp, uint64_t value)
{
    struct mt_self *s = &mt_self;
    uint32_t caller = function & MT_HOST_CALLER;
    function &= ~MT_HOST_CALLER;
    if (caller && was_told(&s->left, function, sp))
        return;
    s->left = (struct mt_frame){caller ? 0 : function, sp};
    mt_enter();
    access_left(sp);
    if (s->frames && s->frame[s->frames - 1].sp == sp)
        s->frames--;
    struct mt_core_thread *t = mt_llvm_thread();
    if (t)
        mt_core_return(t, function, sp, value);
    mt_leave();
}

/* Detects a longjmp out of a handler: here the stack shows it, whereas later calls can reach below it. */
void __mt_host_unwound(uint64_t sp)
{
    if (!mt_self.frames && __mt_host_current != &mt_self.handler)
        return;
    mt_enter();
    mt_llvm_thread();
    access_left(sp);
    mt_leave();
}

void __mt_host_annotation(uint32_t function, uint64_t argument)
{
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    if (t)
        mt_core_call(t, function, 0, (uint64_t[]){argument, 0, 0});
    mt_leave();
}
