/* Shared by comm.c and comm_access.c. */
#ifndef MT_ANALYSIS_COMM_INTERNAL_H
#define MT_ANALYSIS_COMM_INTERNAL_H
#include "comm.h"
#include "shadow.h"

int mt_comm_fail(struct mt_comm *c, const char *why); /* -1 */
/* Room for element n of a growing array. */
int mt_comm_reserve(struct mt_comm *c, void **array, size_t n, size_t *room, size_t size);
/* The actor of this CTA on this SM in the launch under way, made if need be; 0 on failure. */
uint32_t mt_comm_actor(struct mt_comm *c, uint64_t cta, uint32_t smid);
/* Index into c->transfers, made if need be; SIZE_MAX on failure. */
size_t mt_comm_transfer(struct mt_comm *c, uint32_t src, uint32_t dst);
/* comm_host.c */
int mt_comm_host_init(struct mt_comm *c);
void mt_comm_host_free(struct mt_comm *c);
#endif
