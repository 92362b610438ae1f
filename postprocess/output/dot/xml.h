/* What GraphML and pages share. */
#ifndef MT_OUTPUT_XML_H
#define MT_OUTPUT_XML_H
#include <stdio.h>

/* `s` as text or in an attribute between double quotes; what no XML text may hold becomes a blank. */
void mt_xml_text(FILE *f, const char *s);
#endif
