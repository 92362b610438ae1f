/* What the source files of a program's code held while it ran: `source` lines of companions. Whoever reads a
 * trace can see from them whether a file is still the one that was meant,
 * and that the trace's writer knew it. */
#ifndef MT_COMMON_SOURCES_H
#define MT_COMMON_SOURCES_H
/* Writes the line of a file when its name is met for the first time, if it is a regular file of a size that
 * sources have and can be read. Calls of one thread at a time. */
void mt_source_line(const char *file);
#endif
