/* What GraphML and SVG share. */
#ifndef MT_OUTPUT_XML_H
#define MT_OUTPUT_XML_H
#include <stdio.h>

/* `s` as text or in an attribute between double quotes; what no XML text may hold becomes a blank. */
void mt_xml_text(FILE *f, const char *s);
/* The same, with what is beyond `most` bytes (8 .. 256) left out: of paths the end says more than the start.
 */
void mt_xml_short(FILE *f, const char *s, size_t most);
#endif
