/* Which sites the GPU's code has. The CPU image has their table, and the name of a variable that the code has
 * if its sites are these: another architecture's code may make other accesses. Where the code of several
 * files makes one program (-fgpu-rdc) each file's numbers its sites from 0 and adds the variable
 * (llvm-pass/gpu/link.c), which has its value before the program's first launch on a device. */
#include "cuda.h"
#include "device.h"
#include "base/report.h"
#include "base/short.h"
#include <stdlib.h>

struct mt_gpu_sites {
    const struct mt_image *first; /* of a program */
    int known;
    struct mt_gpu_sites *next;
};

/* Held while variables are written: who finds a program in the list may launch it.
 * The reader needs it never. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int sites_number(const struct mt_cuda *cu, void *module, const struct mt_image *image)
{
    unsigned long long at;
    size_t bytes;
    if (!image->head->site_variable)
        return 0;
    int e = cu->GlobalOf(&at, &bytes, module, image->head->site_variable);
    if (!e && image->head->site_base && bytes == sizeof image->site_base)
        e = (int)mt_gpu_write(cu, (void *)(uintptr_t)at, &image->site_base, bytes);
    return e;
}

/* 0, or -1: sites of the program, or of some of its files, are not known on this device. */
static int number_all(const struct mt_cuda *cu, const struct mt_gpu_launch *l)
{
    void *function = NULL, *module;
    int bad = 0;
    if (!cu->FunctionOf || !cu->ModuleOf || !cu->GlobalOf || cu->FunctionOf(&function, l->symbol) ||
        cu->ModuleOf(&module, function))
        return l->image->head->site_base ? -1 : 0; /* a file alone: most likely they are the image's */
    for (const struct mt_image *i = l->image; i; i = i->peer)
        bad |= sites_number(cu, module, i);
    return bad ? -1 : 0;
}

static struct mt_gpu_sites *sites_find(const struct mt_gpu_device *d, const struct mt_image *first)
{
    struct mt_gpu_sites *s = d->sites;
    while (s && s->first != first)
        s = s->next;
    return s;
}

/* On the device, which need not be the thread's current one; with its lock. */
static int number_on(struct mt_gpu_device *d, const struct mt_gpu_launch *l)
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
                  mt_short(l->line.kernel).text, d->ordinal);
    if (bad && clean)
        cu->GetLastError();
    if (current != d->ordinal)
        cu->SetDevice(current);
    return !bad;
}

int mt_gpu_number_sites(struct mt_gpu_device *d, const struct mt_gpu_launch *l)
{
    if (!l->image || !l->image->head->site_variable || !l->symbol || !mt_trace_compact())
        return 1;
    pthread_mutex_lock(&lock);
    struct mt_gpu_sites *s = sites_find(d, l->image);
    if (!s && (s = malloc(sizeof *s))) {
        *s = (struct mt_gpu_sites){.first = l->image, .known = number_on(d, l), .next = d->sites};
        d->sites = s;
    }
    int known = s && s->known;
    pthread_mutex_unlock(&lock);
    return known;
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
