/* These programs know one GPU. */
#include "base/devices.h"

int mt_devices(void)
{
    return 1;
}
