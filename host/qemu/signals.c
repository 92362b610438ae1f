/* --signal: SIGUSR1 turns tracing on, SIGUSR2 off. Also the end of a program killed by a signal. */
#define _GNU_SOURCE
#include "signals.h"
#include "../core/core.h"
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int on;
static void (*on_death)(void);
static struct sigaction theirs[2]; /* qemu's handlers of SIGUSR1 and SIGUSR2 */
static volatile char handled[2];   /* 1: the guest has a handler */

static int signals_which(int signal)
{
    return signal == SIGUSR1 ? 0 : signal == SIGUSR2 ? 1 : -1;
}

static void signals_switched(int signal, siginfo_t *info, void *context)
{
    int k = signals_which(signal);
    mt_core_switch(signal == SIGUSR1);
    if (k >= 0 && handled[k] && (theirs[k].sa_flags & SA_SIGINFO) && theirs[k].sa_sigaction)
        theirs[k].sa_sigaction(signal, info, context);
}

static void put_in_front(int signal)
{
    struct sigaction now, ours;
    int k = signals_which(signal);
    if (sigaction(signal, NULL, &now) != 0 || now.sa_sigaction == signals_switched)
        return;
    theirs[k] = now;
    ours = now;
    ours.sa_sigaction = signals_switched;
    ours.sa_flags = (now.sa_flags | SA_SIGINFO | SA_RESTART) & ~SA_RESETHAND;
    if (!(now.sa_flags & SA_SIGINFO)) /* default or ignored */
        sigfillset(&ours.sa_mask);
    sigaction(signal, &ours, NULL);
}

void mt_signals_changed(int signal, uint64_t handler)
{
    int k = signals_which(signal);
    if (k < 0 || !on)
        return;
    handled[k] = handler > 1;
    put_in_front(signal);
}

/* ---- death ---- */

/* qemu ends a guest killed by a signal by sending itself that signal with the default action, which no
 * plugin callback sees. Nothing else in qemu-user calls kill() on itself. */
static int signals_killing(pid_t pid, int signal)
{
    static pthread_mutex_t once =
        PTHREAD_MUTEX_INITIALIZER; /* a second thread waits for the end of the first one */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    if (signal > 0 && pid == getpid()) {
        /* The same signal may come twice (terminals and timeout send it to the group); the second one
         * waits for us. */
        int changed = sigaction(signal, &ignore, &before) == 0;
        pthread_mutex_lock(&once);
        on_death();
        pthread_mutex_unlock(&once);
        if (changed)
            sigaction(signal, &before, NULL);
    }
    return kill(pid, signal);
}

static int signals_fixed(const struct dl_phdr_info *info, uintptr_t slot)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO &&
            slot - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return 1;
    return 0;
}

static void signals_replace(const struct dl_phdr_info *info, uintptr_t *slot)
{
    uintptr_t page = (uintptr_t)slot & ~(uintptr_t)4095;
    if (mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0)
        return;
    *slot = (uintptr_t)signals_killing;
    if (signals_fixed(info, (uintptr_t)slot))
        mprotect((void *)page, 4096, PROT_READ);
}

static int in_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const ElfW(Rela) *r = NULL;
    size_t bytes = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            for (const ElfW(Dyn) *d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
                 d->d_tag != DT_NULL; d++) {
                if (d->d_tag == DT_SYMTAB)
                    symbols = (const void *)d->d_un.d_ptr;
                if (d->d_tag == DT_STRTAB)
                    strings = (const void *)d->d_un.d_ptr;
                if (d->d_tag == DT_JMPREL)
                    r = (const void *)d->d_un.d_ptr;
                if (d->d_tag == DT_PLTRELSZ)
                    bytes = d->d_un.d_val;
            }
    for (; symbols && strings && r && bytes >= sizeof *r; r++, bytes -= sizeof *r)
        if (!strcmp(strings + symbols[ELF64_R_SYM(r->r_info)].st_name, "kill"))
            signals_replace(info, (uintptr_t *)(info->dlpi_addr + r->r_offset));
    return 1; /* the first one is the program; none after it */
}

void mt_signals_start(int switching, void (*death)(void))
{
    on_death = death;
    dl_iterate_phdr(in_program, NULL);
    on = switching;
    if (on) {
        put_in_front(SIGUSR1);
        put_in_front(SIGUSR2);
    }
}
