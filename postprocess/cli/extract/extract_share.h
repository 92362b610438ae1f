/* What memtrace extract does for the further analyses when several members of a team read a
 * part of the trace each. */
#ifndef MT_CLI_EXTRACT_SHARE_H
#define MT_CLI_EXTRACT_SHARE_H
#include "cli/base/locality_run.h"
#include "analysis/comm/session.h"

/* All launches, where they are. Zero-initialised is empty. */
struct mt_extract_share {
    struct mt_run_launch *launches; /* by superstep */
    struct mt_span *spans;
    size_t count, room;
};

/* A launch that nobody has read, which `x` was told last. 0, or -1 without memory.
 * Does nothing when no analysis of runs was chosen. */
int mt_extract_share_note(struct mt_extract_share *s, const struct mt_locality_run *x,
                          const struct mt_span *span);
/* By all members together, after the last launch: analyses all of them; the member that reports has the
 * results. 0; 1: the user stopped it, there are none; -1: mt_team_why. */
int mt_extract_share(struct mt_extract_share *s, struct mt_locality_run *x, const struct mt_session *session,
                     struct mt_team *team);
void mt_extract_share_free(struct mt_extract_share *s);
#endif
