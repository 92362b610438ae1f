/* Long names of kernels and functions, shortened for messages. */
#ifndef MT_COMMON_SHORT_H
#define MT_COMMON_SHORT_H

#define MT_SHORT 120 /* bytes */

struct mt_short {
    char text[MT_SHORT + 8];
};
/* Shortens a name of any length (or NULL) to MT_SHORT bytes. First the inside of its brackets goes, "foo<4,
 * F<…> >::bar(…)" or if needed "foo<…>::bar(…)", then its middle. The result is for one call:
 * mt_report("kernel %s", mt_short(name).text). */
struct mt_short mt_short(const char *name);
#endif
