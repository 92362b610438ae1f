/* What every synchronising call does besides waiting. */
#ifndef MT_API_SYNC_H
#define MT_API_SYNC_H

/* The program may have printed on the device: marks stdout as to be flushed at the next mt_synced. */
void mt_printed(void);
/* The program has waited for the device: device output appears, companions on disk are brought up to date. */
void mt_synced(void);
#endif
