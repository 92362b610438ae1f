/* One order for host accesses and CUDA calls: the numbers of libmemtrace.so if the program has it. */
#include "entry.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

static uint64_t (*cuda_sequence)(int next);
static uint64_t own;
static uint64_t cuda_low, cuda_high; /* code range of libmemtrace.so */

uint64_t mt_llvm_sequence(int next)
{
    if (cuda_sequence)
        return cuda_sequence(next);
    return next ? __atomic_add_fetch(&own, 1, __ATOMIC_SEQ_CST) : __atomic_load_n(&own, __ATOMIC_ACQUIRE);
}

/* Called when a CUDA call has taken a number. */
static void sequence_moved(void)
{
    if (mt_phase != MT_PHASE_ON || mt_self.busy)
        return;
    /* Threads without a traced access, such as the runtime's own, are not traced because of this. */
    mt_enter();
    struct mt_core_thread *t = mt_self.state == 1 ? mt_llvm_thread() : NULL;
    mt_core_moved(t);
    mt_leave();
}

/* Records memory of the program that a copy of the CUDA runtime reads; location of the call, or NULL. */
static void sequence_read(uint64_t address, uint64_t bytes, const char *file, uint32_t line)
{
    struct mt_core_site s = {.op = MT_HOST_LOAD, .file = file, .line = line};
    uint64_t key = ((uint64_t)(uintptr_t)file << 16) + line + 1;
    if (mt_phase != MT_PHASE_ON || mt_self.busy)
        return;
    mt_enter();
    mt_self.busy++;
    uint32_t site = mt_core_site_of(key, &s);
    mt_self.busy--;
    mt_leave();
    if (!site)
        return;
    mt_begin(site, address, bytes);
    mt_end(0);
}

static int find_range(struct dl_phdr_info *info, size_t size, void *symbol)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t low = info->dlpi_addr + p->p_vaddr, high = low + p->p_memsz;
        if (p->p_type == PT_LOAD && (uint64_t)(uintptr_t)symbol >= low &&
            (uint64_t)(uintptr_t)symbol < high) {
            cuda_low = low;
            cuda_high = high;
            return 1;
        }
    }
    return 0;
}

void mt_llvm_sequence_open(void)
{
    void *sequence = dlsym(RTLD_DEFAULT, "__mt_sequence");
    void (*on_move)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(RTLD_DEFAULT, "__mt_sequence_moved");
    typedef void tell_type(uint64_t, uint64_t, const char *, uint32_t);
    void (*reads)(tell_type *);
    if (!sequence || !on_move)
        return;
    cuda_sequence = (uint64_t (*)(int))sequence;
    dl_iterate_phdr(find_range, sequence);
    on_move(sequence_moved);
    reads = (void (*)(tell_type *))dlsym(RTLD_DEFAULT, "__mt_host_reads");
    if (reads)
        reads(sequence_read);
}

int mt_not_for_us(uint64_t ip)
{
    return ip >= cuda_low && ip < cuda_high;
}
