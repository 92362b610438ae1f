/* Shared by comm_json.c and transfers_json.c. */
#ifndef MT_OUTPUT_COMM_PARTS_H
#define MT_OUTPUT_COMM_PARTS_H
#include "comm_json.h"
#include "analysis/comm/comm.h"
#include "analysis/base/order.h"
#include "analysis/comm/shadow.h"

/* The key of a CTA from that number; `out` has room for 64. */
const char *mt_cta_key(char *out, uint64_t order);
/* "file:line" of host code; what is not known is "?", or "0,0,0" when no host trace was read. */
const char *mt_comm_location_name(const struct mt_comm *c, uint32_t place);
/* Indices of the transfers by reader (launch, CTA), then by writer; malloc'ed, NULL without memory. */
size_t *mt_transfers_sort(const struct mt_comm *c);
/* The section, as a member of the object under way; `order`: launches by kernel, then superstep. 0, or -1
 * without memory. */
int mt_transfers_write(struct mt_json *j, const struct mt_comm *c, const uint32_t *order);
#endif
