/* The GPUs that the CPU device shows. */
#include "devices.h"
#include "options.h"
#include <stdatomic.h>

static _Thread_local int current;
static _Atomic int on_gpu;
static _Atomic unsigned char peers[MT_DEVICES_MAX][MT_DEVICES_MAX];

int mt_devices(void)
{
    return on_gpu ? on_gpu : (int)mt_options()->cpu_devices;
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

int mt_device_reaches(int device, int owner)
{
    return device == owner || peers[device][owner];
}

int mt_device_reach(int device, int owner, int on)
{
    return atomic_exchange(&peers[device][owner], (unsigned char)on);
}

void mt_device_alone(int device)
{
    for (int i = 0; i < MT_DEVICES_MAX; i++)
        peers[device][i] = 0;
}
