/* What the source files of a program's code held while it ran: `source` lines of companions. Whoever reads a
 * trace can see from them whether a file is still the one that was meant,
 * and that the trace's writer knew it. */
#ifndef MT_COMMON_SOURCES_H
#define MT_COMMON_SOURCES_H
#include <stddef.h>

/* Writes the line of a file when its name is met for the first time, if it is a regular file of a size that
 * sources have and can be read. */
void mt_source_line(const char *file);
/* Writes a text that is in no file (PTX of the program's) into MEMTRACE_DIR, under a name that says what is
 * in it; it is not written again when it is there. From here on sites that call their file so have its path.
 */
void mt_source_keep(const char *name, const void *text, size_t bytes);
/* Writes what is no text (machine code) there in the same way. `name`: without a folder. 0, or -1 after
 * saying why. */
int mt_source_put(const char *name, const void *data, size_t bytes);
/* The path of what was kept under this name, or the name itself. */
const char *mt_source_kept_at(const char *name);
#endif
