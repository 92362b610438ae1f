/* These programs know one GPU. */
#include "trace/devices.h"

int mt_devices(void)
{
    return 1;
}
