/* The guest's threads, and their turns in atomic mode. All functions are called by the thread itself. */
#ifndef MT_HOST_QEMU_THREADS_H
#define MT_HOST_QEMU_THREADS_H
#include "record.h"

enum { MT_VCPUS = 65536 };

struct mt_plugin_state {
    struct mt_core_options options;
    enum mt_core_mode mode;
    int forked;   /* 1: this is a child, nothing is traced */
    int refused;  /* 1: a thread could not be traced */
    int parallel; /* 1: there is, or was, more than one */
};
extern struct mt_plugin_state mt_plugin;

extern struct mt_thread *mt_threads[MT_VCPUS];    /* NULL: not started yet */
extern struct mt_core_thread *mt_cores[MT_VCPUS]; /* the core's object of each, for the fast path */

/* NULL: it cannot be traced. */
struct mt_thread *mt_thread_start(unsigned vcpu);
void mt_thread_exit(unsigned vcpu);

/* Returns 1 in atomic mode once there are several threads. */
static inline int mt_takes_turns(void)
{
    return mt_plugin.mode == MT_CORE_ATOMIC && mt_plugin.parallel && !mt_plugin.options.test;
}
/* Gives waiting threads their turn and waits for the next one. */
void mt_turn_wait(struct mt_thread *t);
/* For mt_baton_stolen. */
void mt_turn_stolen(struct mt_baton_hand *from);

/* Handles the end of the process; `killed`: by a signal. */
void mt_plugin_stop(int killed);
void mt_plugin_death(void);
/* For pthread_atfork. */
void mt_plugin_in_child(void);
#endif
