/* The guest's threads, and their turns in atomic mode. */
#define _GNU_SOURCE
#include "threads.h"
#include "registers.h"
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

struct mt_plugin_state mt_plugin;
struct mt_thread *mt_threads[MT_VCPUS];
struct mt_core_thread *mt_cores[MT_VCPUS];

/* ---- threads ---- */

static __thread struct mt_thread *current;

struct mt_thread *mt_thread_start(unsigned vcpu)
{
    if (mt_plugin.forked || vcpu >= MT_VCPUS)
        return NULL;
    struct mt_thread *t = calloc(1, sizeof *t);
    if (t) {
        t->hand.thread = gettid();
        if (mt_takes_turns())
            mt_baton_take(&t->hand, 0);
    }
    if (t && !(t->core = mt_core_thread_start((uint64_t)gettid()))) {
        mt_baton_give(&t->hand);
        free(t);
        t = NULL;
    }
    if (!t) {
        mt_plugin.refused = 1;
        return NULL;
    }
    t->core->engine = t;
    mt_core_turn_begin(t->core);
    current = t;
    t->syscall.number = -1;
    mt_registers_attach(t, vcpu);
    mt_cores[vcpu] = t->core;
    return mt_threads[vcpu] = t;
}

void mt_thread_exit(unsigned vcpu)
{
    struct mt_thread *t = vcpu < MT_VCPUS ? mt_threads[vcpu] : NULL;
    if (!t || mt_plugin.forked)
        return;
    mt_threads[vcpu] = NULL;
    mt_cores[vcpu] = NULL;
    if (mt_takes_turns() && mt_baton_holder != &t->hand)
        mt_baton_take(&t->hand, 0);
    mt_core_thread_end(t->core);
    mt_baton_give(&t->hand);
    mt_calls_free(&t->calls);
    free(t);
}

/* Takes the baton first, if possible. */
void mt_plugin_stop(int killed)
{
    if (mt_takes_turns() && current && mt_baton_holder != &current->hand)
        mt_baton_take(&current->hand, 300);
    if (current && !killed)
        mt_core_thread_end(current->core);
    mt_core_stop(killed);
}

void mt_plugin_death(void)
{
    if (!mt_plugin.forked)
        mt_plugin_stop(1);
}

void mt_plugin_in_child(void)
{
    mt_plugin.forked = 1;
    mt_core_forked();
}

/* ---- atomic mode: one thread at a time ---- */

void mt_turn_wait(struct mt_thread *t)
{
    if (mt_plugin.forked)
        return;
    if (mt_baton_holder == &t->hand) {
        t->hand.blocks = mt_baton_blocks;
        if (!mt_baton_wanted(&t->hand))
            return;
        mt_core_turn_end(t->core);
        mt_baton_give(&t->hand);
    }
    mt_baton_take(&t->hand, 0);
    mt_core_turn_begin(t->core);
}

void mt_turn_stolen(struct mt_baton_hand *from)
{
    struct mt_thread *t = (struct mt_thread *)((char *)from - offsetof(struct mt_thread, hand));
    if (t->core)
        mt_core_turn_stolen(t->core);
}
