/* Device code that is put together at run time (cuLink*, nvJitLink): api/device/made_image.h's linked code as
 * it grows. */
#ifndef MT_DRIVER_LINK_H
#define MT_DRIVER_LINK_H
#include "api/device/device.h"

enum mt_link_kind { MT_LINK_PTX, MT_LINK_CUBIN, MT_LINK_FATBIN };

/* Empty; free() ends it. NULL: no memory. */
struct mt_linked_code *mt_link_new(void);
/* Adds a copy of one piece; PTX need not end with NUL. 0, or -1 without memory: as it was. */
int mt_link_add(struct mt_linked_code **code, enum mt_link_kind kind, const void *data, size_t bytes);
#endif
