/* The numbers of sites where the code of several files makes one program (-fgpu-rdc). Each file's code
 * numbers its sites from 0 and adds a variable to them (llvm-pass/gpu.c), which has its value before the
 * program's first launch on a device. The CPU image says what it is called. */
#include "cuda.h"
#include "device.h"
#include "common/report.h"
#include <stdlib.h>

struct mt_gpu_sites {
    const struct mt_image *first; /* of a program */
    struct mt_gpu_sites *next;
};

/* Held while variables are written: who finds a program in the list may launch it. The reader needs it never.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int number(const struct mt_cuda *cu, void *module, const struct mt_image *image)
{
    unsigned long long at;
    size_t bytes;
    if (!image->head->site_variable)
        return 0;
    int e = cu->GlobalOf(&at, &bytes, module, image->head->site_variable);
    if (!e && bytes == sizeof image->site_base)
        e = (int)mt_gpu_write(cu, (void *)(uintptr_t)at, &image->site_base, bytes);
    return e;
}

/* 0, or -1: sites of the program, or of some of its files, are not known on this device. */
static int number_all(const struct mt_cuda *cu, const struct mt_gpu_launch *l)
{
    void *function, *module;
    int bad = 0;
    if (!cu->FunctionOf || !cu->ModuleOf || !cu->GlobalOf || cu->FunctionOf(&function, l->symbol) ||
        cu->ModuleOf(&module, function))
        return -1;
    for (const struct mt_image *i = l->image; i; i = i->peer)
        bad |= number(cu, module, i);
    return bad ? -1 : 0;
}

static int is_listed(const struct mt_gpu_device *d, const struct mt_image *first)
{
    const struct mt_gpu_sites *s = d->sites;
    while (s && s->first != first)
        s = s->next;
    return s != NULL;
}

/* On the device, which need not be the thread's current one; with its lock. */
static void number_on(struct mt_gpu_device *d, const struct mt_gpu_launch *l)
{
    const struct mt_cuda *cu = mt_cuda();
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* someone may be capturing a graph */
    int clean = cu->PeekAtLastError() == cudaSuccess, current = d->ordinal, bad;
    cu->GetDevice(&current);
    if (current != d->ordinal)
        cu->SetDevice(d->ordinal);
    cu->ThreadExchangeStreamCaptureMode(&mode);
    bad = number_all(cu, l);
    cu->ThreadExchangeStreamCaptureMode(&mode);
    if (bad)
        mt_report("kernel %s: sites of its program are not known on GPU %d (its code was compiled for "
                  "another architecture than the CPU image, or the driver is too old)",
                  l->line.kernel, d->ordinal);
    if (bad && clean)
        cu->GetLastError();
    if (current != d->ordinal)
        cu->SetDevice(current);
}

void mt_gpu_number_sites(struct mt_gpu_device *d, const struct mt_gpu_launch *l)
{
    if (!l->image || !l->image->head->site_base || !l->symbol || mt_cuda()->sites_are_numbered ||
        !mt_trace_compact())
        return;
    pthread_mutex_lock(&lock);
    struct mt_gpu_sites *s = is_listed(d, l->image) ? NULL : malloc(sizeof *s);
    if (s) {
        *s = (struct mt_gpu_sites){l->image, d->sites};
        d->sites = s;
        number_on(d, l);
    }
    pthread_mutex_unlock(&lock);
}

void mt_gpu_forget_sites(struct mt_gpu_device *d)
{
    pthread_mutex_lock(&lock);
    for (struct mt_gpu_sites *s = d->sites, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    d->sites = NULL;
    pthread_mutex_unlock(&lock);
}
