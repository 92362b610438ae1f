/* The GPUs shown by the CPU device. */
#include "devices.h"
#include "base/options.h"
#include <pthread.h>
#include <stdlib.h>

/* The GPUs visible to the process, in the order of CUDA_VISIBLE_DEVICES. An invalid number ends the list; if
 * none is left, all are visible. */
static struct {
    int n, number[MT_DEVICES_MAX];
} visible;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void devices_see(void)
{
    int all = (int)mt_options()->cpu_devices;
    const char *at = all > 1 ? getenv("CUDA_VISIBLE_DEVICES") : NULL;
    while (at && *at >= '0' && *at <= '9' && visible.n < all) {
        char *end;
        long number = strtol(at, &end, 10);
        if (number >= all || (*end && *end != ','))
            break;
        visible.number[visible.n++] = (int)number;
        at = *end ? end + 1 : NULL;
    }
    for (int i = 0; !visible.n && i < all; i++)
        visible.number[i] = i;
    visible.n = visible.n ? visible.n : all;
}

static _Thread_local int current;
static _Atomic int on_gpu;
_Atomic unsigned char mt_device_peers[MT_DEVICES_MAX][MT_DEVICES_MAX];

int mt_devices(void)
{
    pthread_once(&once, devices_see);
    return on_gpu ? on_gpu : visible.n;
}

int mt_device_number(int device)
{
    pthread_once(&once, devices_see);
    if (device < 0 || (on_gpu ? on_gpu : (int)mt_options()->cpu_devices) <= 1)
        return -1;
    return on_gpu || device >= visible.n ? device : visible.number[device];
}

void mt_devices_of_gpu(int n)
{
    on_gpu = n;
}

int mt_device_there(int device)
{
    return device >= 0 && device < mt_devices();
}

int mt_device_current(void)
{
    return current;
}

int mt_device_select(int device)
{
    int before = current;
    current = device;
    return before;
}
