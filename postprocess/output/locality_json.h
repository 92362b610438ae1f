/* The sections of the further analyses in comm.json (docs/man/mt-extract.md). */
#ifndef MT_OUTPUT_LOCALITY_JSON_H
#define MT_OUTPUT_LOCALITY_JSON_H
#include "json.h"
#include "analysis/comm/comm.h"
#include "analysis/locality/locality.h"
#include "analysis/locality/placement.h"
#include "analysis/base/sites.h"

/* The sections that were chosen, as members of the object under way; `m` is finished. 0,
 * or -1 without memory. */
int mt_locality_write(struct mt_json *j, const struct mt_locality *m, const struct mt_sites *sites);
/* The section placement, with the device of each CTA if `assignment`;
 * c's launches have the nodes p->launches. */
int mt_placement_write(struct mt_json *j, const struct mt_placement *p, const struct mt_comm *c,
                       int assignment);

/* Shared with the text output and the tables: */
/* "#ID NAME" of an allocation, "?" for an index beyond; `out` has room for MT_ALLOC_LABEL. Returns out. */
enum { MT_ALLOC_LABEL = 300 };
const char *mt_alloc_label(char *out, const struct mt_locality *m, uint64_t alloc);
const char *mt_alloc_event_label(char *out, const struct mt_alloc_event *alloc);
/* Is any access of the trace known by its site, has any a lane mask? */
int mt_locality_has_sites(const struct mt_locality *m, enum mt_lines_by by);
int mt_locality_has_masks(const struct mt_locality *m);
/* Their names, in text, JSON and tables. */
extern const char *const mt_access_types[4];
extern const char *const mt_reuse_levels[MT_REUSE_LEVELS];
extern const char *const mt_sharing_kinds[MT_SHARING_KINDS];
extern const char *const mt_placement_policies[MT_PLACE_POLICIES];
#endif
