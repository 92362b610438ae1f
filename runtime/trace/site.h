/* The place in the source of the CUDA call under way. */
#ifndef MT_COMMON_SITE_H
#define MT_COMMON_SITE_H
#include "format/site.h"
#include <stdint.h>
/* Called from instrumented host code before a CUDA call; keeps `site` for the calling thread. */
void __mt_host_site(const struct mt_host_site *site);
/* The place of the CUDA call under way and forgets it;
 * NULL when unknown (code not compiled with the plugin). */
const struct mt_host_site *mt_host_site_take(void);
/* The same, and it stays; NULL also where only Python's line is known. */
const struct mt_host_site *mt_host_site_pending(void);
/* 1 unless its library has been unloaded. Sites are kept beyond the call they were made for. */
int mt_host_site_there(const struct mt_host_site *site);
/* Where code calls that says no lines: the return address in it, and those of its callers, as
 * "FILE+0xOFFSET". */
#define MT_SITE_CALLERS 6
struct mt_host_code {
    struct mt_host_site site; /* file "", line 0 */
    char *at[1 + MT_SITE_CALLERS];
    unsigned ncallers;
};
/* Asks this for the place of a call that has none; it stays. NULL: is not known. */
void mt_host_site_ask(const struct mt_host_site *(*code)(void));
extern const char mt_host_code_name[]; /* of such sites */
/* NULL: it is another one. */
const struct mt_host_code *mt_host_code_of(const struct mt_host_site *site);
/* What was taken last on this thread: within a CUDA call, its place. */
const struct mt_host_site *mt_host_site_taken(void);
#endif
