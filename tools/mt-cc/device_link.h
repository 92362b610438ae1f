/* Linking of relocatable device code, as nvcc does it: nvlink makes one GPU program of the objects' parts,
 * and a small object registers it. The code for the CPU device stays in the objects and binds when the
 * program is loaded. */
#ifndef MT_TOOLS_DEVICE_LINK_H
#define MT_TOOLS_DEVICE_LINK_H
#include "mt-cc.h"

#define MT_ARCHS 256 /* architectures by number (90) */

/* What the device code of some files has in common. Zero-initialise. */
struct device_code {
    int fatbins;
    unsigned char arch[MT_ARCHS]; /* 1: all of them have GPU code for it */
};

/* The objects and archives with relocatable device code among the words of a link, in their order; -l is
 * looked up in the -L folders. */
struct words mt_cc_device_code_inputs(const struct words *line, struct device_code *code);

/* device_link.c: links the device code of `inputs` in `folder` (for temporary files) and makes `object`,
 * which must be linked with them. Returns 0, or an exit code after a message; *made says whether there is an
 * object: not without GPU code, nor when all is linked already. */
int mt_cc_device_link(const struct request *r, const struct words *inputs, const struct device_code *code,
                      const char *folder, const char *object, int *made);
/* -dlink where there is nothing to link: an object without contents. */
int mt_cc_device_link_nothing(const struct request *r, const char *folder, const char *object);
/* Removes the temporary files of device_link. */
void mt_cc_device_link_clean(const char *folder);
#endif
