/* Regions traced in mat mode: routines. (Signals: mt_core_switch, regions: functions.) */
#include "state.h"

static void switch_look(struct mt_core_thread_state *t)
{
    if (t->busy || !t->live || !mt_on() || mt_g.o->mode != MT_CORE_MAT)
        return;
    t->busy = 1;
    mt_spin_lock(&t->lock);
    mt_mat_look(t);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

void mt_core_routine_enter(struct mt_core_thread *pub)
{
    if (pub && !pub->state->depth++)
        switch_look(pub->state);
}

void mt_core_routine_leave(struct mt_core_thread *pub)
{
    if (pub && pub->state->depth && !--pub->state->depth)
        switch_look(pub->state);
}
