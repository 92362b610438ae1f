/* File descriptors of the tracer, kept apart from the program's: above its limit where possible (open
 * files may lie there), else as high as possible. The program's own files thus get the numbers that they
 * would have without us, and a loop over all numbers misses ours. Calls that would close ours anyway are
 * announced by mt_core_descriptors_closing (core.h). */
#ifndef MT_HOST_DESCRIPTORS_H
#define MT_HOST_DESCRIPTORS_H
#include "output.h"

/* Moves a file to such a number and closes the old one. A negative errno value is returned as it is. */
long mt_descriptor_up(long fd);
/* Duplicates a file to such a number; the old one stays open. */
long mt_descriptor_copy(long fd);
/* Starts watching an open output; mt_descriptor_leave ends that. */
void mt_descriptor_watch(struct mt_core_output *o);
void mt_descriptor_leave(struct mt_core_output *o);
#endif
