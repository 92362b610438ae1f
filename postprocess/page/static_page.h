/* Pages that are written as they are shown, without a script (web/versus.css). Errors of writing are the
 * stream's. */
#ifndef MT_PAGE_STATIC_PAGE_H
#define MT_PAGE_STATIC_PAGE_H
#include <stdio.h>

/* All up to the end of the headline; `look` is a class of the page's style, or "". No network, no other file.
 */
void mt_static_begin(FILE *f, const char *title, const char *look);
/* `footer` is HTML of ours. */
void mt_static_end(FILE *f, const char *footer);
/* A text of a trace, escaped, between HTML of ours. */
void mt_static_text(FILE *f, const char *open, const char *text, const char *close);
/* A cell with two bars, in percent of its width. */
void mt_static_bars(FILE *f, double a, double b);
#endif
