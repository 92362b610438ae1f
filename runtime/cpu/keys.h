/* Which lanes of a warp come to which access, known before they are put together (warps.c). An access is the
 * same for two lanes when site, type, size and place are,
 * and when each has come to such a one as often before. */
#ifndef MT_CPU_KEYS_H
#define MT_CPU_KEYS_H
#include <stddef.h>
#include <stdint.h>

struct mt_warp_keys;
struct mt_warp_keys *mt_keys_new(void); /* NULL: no memory */
void mt_keys_free(struct mt_warp_keys *k);
/* Takes what `lanes` lanes do: count[i] entries (warps.h) at at[i], one lane's after the other's. Each lane
 * has arrived at its first one then. when: by entry, when it was made; NULL: not known. 0, or -1: no memory.
 */
int mt_keys_fill(struct mt_warp_keys *k, const uint64_t *const *at, const size_t *count, uint32_t lanes,
                 const uint32_t *when);
/* A lane has come to this entry of its own. */
void mt_keys_arrive(struct mt_warp_keys *k, const uint64_t *entry);
/* Have all lanes that ever come to this entry's access arrived there? */
int mt_keys_complete(const struct mt_warp_keys *k, const uint64_t *entry);
/* The lower, the earlier, of those that are complete: when the last of its lanes made it, or its place. */
uint64_t mt_keys_order(const struct mt_warp_keys *k, const uint64_t *entry);
#endif
