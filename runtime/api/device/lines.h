/* Lines of an image that another version of the program had made. */
#ifndef MT_API_LINES_H
#define MT_API_LINES_H
#include "cpu/cpu.h"
#include "make.h"

/* The image's tables get the lines that the kernel has now, in the place of those it had then; its code is
 * that of both. Before anybody else has the image. 0, or -1: no memory, it has those of then. */
int mt_lines_move(struct mt_image *image, const struct mt_made_kernel *then,
                  const struct mt_made_kernel *now);
#endif
