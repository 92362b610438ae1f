/* mmap, munmap, mremap and the program break. */
#include "entry.h"
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLER ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* Returns the thread that reports it, with the pending location taken; NULL: not reported. */
static struct mt_core_thread *open_tell(uint64_t ip)
{
    struct mt_self *s = &mt_self;
    if (s->ours || s->busy || mt_phase != MT_PHASE_ON || mt_not_for_us(ip))
        return NULL;
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    if (t) {
        s->place = __mt_host_place;
        __mt_host_place = NULL;
        s->busy++;
    } else {
        mt_leave();
    }
    return t;
}

static void close_tell(void)
{
    mt_self.busy--;
    mt_self.place = NULL;
    mt_leave();
}

static void *maps_map(void *at, size_t bytes, int protection, int flags, int fd, off_t offset, uint64_t ip)
{
    long p = syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
    struct mt_core_thread *t = p == -1 ? NULL : open_tell(ip);
    if (t) {
        mt_core_alloc(t, MT_CORE_MMAP, (uint64_t)p, bytes, ip);
        close_tell();
    }
    return (void *)p;
}

MT_ENTRY void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return maps_map(at, bytes, protection, flags, fd, offset, CALLER);
}

MT_ENTRY void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
    return maps_map(at, bytes, protection, flags, fd, offset, CALLER);
}

MT_ENTRY int munmap(void *p, size_t bytes)
{
    int rc = (int)syscall(SYS_munmap, p, bytes);
    struct mt_core_thread *t = rc ? NULL : open_tell(0);
    if (t) {
        mt_core_unmap(t, (uint64_t)(uintptr_t)p, bytes);
        close_tell();
    }
    return rc;
}

MT_ENTRY void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
    void *target = NULL;
    if (flags & MREMAP_FIXED) {
        va_list args;
        va_start(args, flags);
        target = va_arg(args, void *);
        va_end(args);
    }
    uint64_t ip = CALLER;
    long p = syscall(SYS_mremap, old, old_bytes, bytes, flags, target);
    struct mt_core_thread *t = p == -1 ? NULL : open_tell(ip);
    if (t) {
        mt_core_remap(t, (uint64_t)(uintptr_t)old, old_bytes, (uint64_t)p, bytes, ip);
        close_tell();
    }
    return (void *)p;
}

static void maps_moved(uint64_t from, uint64_t to, uint64_t ip)
{
    struct mt_core_thread *t = from == to ? NULL : open_tell(ip);
    if (t) {
        mt_core_brk(t, from, to, ip);
        close_tell();
    }
}

/* The C library keeps the break for its own allocator, so it must make the call. */
MT_ENTRY int brk(void *to)
{
    static int (*real)(void *);
    static void *(*real_sbrk)(intptr_t);
    if (!real)
        real = (int (*)(void *))mt_next("brk");
    if (!real_sbrk)
        real_sbrk = (void *(*)(intptr_t))mt_next("sbrk");
    uint64_t before = (uint64_t)(uintptr_t)real_sbrk(0), ip = CALLER;
    int rc = real(to);
    if (!rc)
        maps_moved(before, (uint64_t)(uintptr_t)to, ip);
    return rc;
}

MT_ENTRY void *sbrk(intptr_t by)
{
    static void *(*real)(intptr_t);
    if (!real)
        real = (void *(*)(intptr_t))mt_next("sbrk");
    void *before = real(by);
    if (before != (void *)-1)
        maps_moved((uint64_t)(uintptr_t)before, (uint64_t)(uintptr_t)before + (uint64_t)by, CALLER);
    return before;
}
