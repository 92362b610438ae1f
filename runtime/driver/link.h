/* Linking in the driver API (cuLink*): what comes out is the list of what went in, which cuModuleLoadData
 * takes. */
#ifndef MT_DRIVER_LINK_H
#define MT_DRIVER_LINK_H
#include "driver.h"
#include "api/make.h"

/* The parts of what cuLinkComplete gave; NULL: `image` is something else. */
const struct mt_device_code *mt_link_parts(const void *image, size_t *n);
/* module.c: loads code as one module; options as cuModuleLoadDataEx has them. */
CUresult mt_driver_load(CUmodule *out, const struct mt_device_code *code, size_t count, unsigned n,
                        const CUjit_option *options, void **values);
#endif
