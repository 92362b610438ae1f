/* Memory pools: who owns a block that came from one. */
#ifndef MT_API_POOL_H
#define MT_API_POOL_H
#include <stdint.h>

/* A block of a pool is free again. `id` is the block's flags (struct mt_block):
 * 0 means that no pool owns it. */
void mt_pool_freed(unsigned id, uint64_t bytes);
/* cudaDeviceReset: nothing of the device's pools is in use any more. */
void mt_pools_reset(int device);
/* Memory is given back at synchronisation, as far as a pool's threshold says. */
void mt_pools_synced(void);
#endif
