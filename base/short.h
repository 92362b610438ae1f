/* Names of kernels and functions as messages have them. */
#ifndef MT_COMMON_SHORT_H
#define MT_COMMON_SHORT_H

#define MT_SHORT 120 /* bytes */

struct mt_short {
    char text[MT_SHORT + 8];
};
/* A name of any length, NULL as well: what is longer than MT_SHORT bytes loses the inside of its brackets,
 * "foo<4, F<…> >::bar(…)" or, as far as that does not do, "foo<…>::bar(…)", and then its middle. For one
 * call: mt_report("kernel %s", mt_short(name).text). */
struct mt_short mt_short(const char *name);
#endif
