/* Numbers of the tracer's descriptors. They are out of the program's way: above the limit that it has where
 * that can be done (what is open may lie there), else as high as may be. So the program's own have the
 * numbers that they would have, and a loop over all of them does not meet ours. What would close them
 * nonetheless is told to mt_core_descriptors_closing (core.h). */
#ifndef MT_HOST_DESCRIPTORS_H
#define MT_HOST_DESCRIPTORS_H
#include "output.h"

/* The same file under such a number; the old one is closed. A negative errno value stays. */
long mt_descriptor_up(long fd);
/* The same, and the old one stays open. */
long mt_descriptor_copy(long fd);
/* An open output is watched from here on, until it is left. */
void mt_descriptor_watch(struct mt_core_output *o);
void mt_descriptor_leave(struct mt_core_output *o);
#endif
