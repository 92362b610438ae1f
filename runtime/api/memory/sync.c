/* What every synchronising call does besides waiting. */
#include "sync.h"
#include "pool.h"
#include "trace/trace.h"
#include <stdatomic.h>
#include <stdio.h>

static _Atomic int printed;

void mt_printed(void)
{
    printed = 1;
}

void mt_synced(void)
{
    if (atomic_exchange(&printed, 0))
        fflush(stdout);
    mt_pools_synced();
    mt_trace_flush(0);
}
