/* Start, stop and fork of the tracer. */
#include "output.h"
#include "atomic.h"
#include "state.h"
#include <stdio.h>
#include <string.h>

struct mt_core_global mt_g;
static uint32_t started;
static struct mt_core_options used; /* options of the engine, with the file's name */

uint64_t mt_seq_now(void)
{
    return mt_g.e->sequence ? mt_g.e->sequence(0) : __atomic_load_n(&mt_g.own_seq, __ATOMIC_ACQUIRE);
}

uint64_t mt_seq_next(void)
{
    return mt_g.e->sequence ? mt_g.e->sequence(1) : __atomic_add_fetch(&mt_g.own_seq, 1, __ATOMIC_SEQ_CST);
}

void mt_core_fail(const char *format, ...)
{
    char text[1024];
    mt_g.incomplete = 1;
    __atomic_store_n(&mt_g.on, 0, __ATOMIC_SEQ_CST);
    static uint32_t said;
    if (__atomic_exchange_n(&said, 1, __ATOMIC_SEQ_CST))
        return;
    __builtin_va_list args;
    __builtin_va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    __builtin_va_end(args);
    mt_plat_report("%s; tracing is off, the trace is incomplete", text);
    mt_core_ring();
}

int mt_core_start(const struct mt_core_options *options, const struct mt_core_engine *engine, char *why,
                  unsigned size)
{
    if (mt_g.slot) {
        snprintf(why, size, "tracing was started already");
        return -1;
    }
    memset(&mt_g, 0, sizeof mt_g);
    used = *options;
    mt_g.o = &used;
    mt_g.e = engine;
    mt_g.switched = !options->signal;
    mt_plat_engine(engine->report, engine->yield);
    if (!(used.output = mt_core_output_name(options->output))) {
        used.output = options->output;
        snprintf(why, size, "the name of the output file is too long; give another -o");
        return -1;
    }
    if (!(mt_g.slot = mt_plat_map(MT_THREADS * sizeof *mt_g.slot))) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    if (mt_functions_start(why, size) || mt_core_sink_open(why, size))
        return -1;
    if (used.mat_files)
        mt_sourcelines_start();
    if ((options->mode == MT_CORE_ATOMIC && (mt_order_start(why, size) || mt_atomic_open(why, size))) ||
        (options->mode == MT_CORE_INSN && mt_insn_start(why, size))) {
        mt_core_sink_close(0);
        return -1;
    }
    __atomic_store_n(&started, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&mt_g.on, 1, __ATOMIC_SEQ_CST);
    mt_functions_lines();
    return 0;
}

/* Limit of the wait for a thread inside the core, perhaps below the signal handler that stops us; its data
 * is then lost. */
#define STOP_WAIT_NS 1000000000u

static void core_collect(void)
{
    int locked = !mt_spin_lock_for(&mt_g.threads_lock, STOP_WAIT_NS,
                                   mt_core_sink_writing); /* no thread ends meanwhile */
    for (uint32_t i = 0; i < mt_g.slots; i++) {
        struct mt_core_thread_state *t = mt_g.slot[i];
        if (!__atomic_load_n(&t->live, __ATOMIC_ACQUIRE))
            continue;
        if (mt_spin_lock_for(&t->lock, STOP_WAIT_NS, mt_core_sink_writing)) {
            mt_g.incomplete = 1;
            continue;
        }
        if (t->live && t->buffer) {
            if (mt_g.o->mode == MT_CORE_ATOMIC || mt_turns(t))
                mt_atomic_stop(t);
            else if (mt_g.o->mode == MT_CORE_INSN)
                mt_insn_flush(t);
            else
                mt_mat_stop(t);
        }
        mt_spin_unlock(&t->lock);
    }
    if (locked)
        mt_spin_unlock(&mt_g.threads_lock);
}

void mt_core_stop(int killed)
{
    if (mt_g.forked || !__atomic_exchange_n(&started, 0, __ATOMIC_SEQ_CST))
        return;
    __atomic_store_n(&mt_g.stopping, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&mt_g.on, 0, __ATOMIC_SEQ_CST);
    mt_core_ring();
    mt_functions_unseen();
    if (mt_core_sink_stuck(STOP_WAIT_NS)) {
        mt_plat_report("%s: stopped inside the tracer; the trace has no end", mt_g.o->output);
        return;
    }
    core_collect();
    if (mt_g.o->mode == MT_CORE_INSN)
        mt_insn_stop();
    else if (mt_g.o->mode == MT_CORE_ATOMIC)
        mt_atomic_close(killed);
    struct mt_sums sum = mt_threads_sum();
    if (sum.outside && mt_g.o->mode == MT_CORE_MAT && !mt_g.o->container)
        mt_plat_report("%llu accesses outside all allocations were left out; --all keeps them",
                       (unsigned long long)sum.outside);
    if (sum.left && !mt_g.o->container)
        mt_plat_report("%llu accesses of libraries' code were left out; --library=all keeps them",
                       (unsigned long long)sum.left);
    mt_core_library_unmet();
    if (sum.lost && !mt_g.incomplete) /* otherwise the reason was reported */
        mt_plat_report("%llu accesses could not be recorded: the trace is incomplete",
                       (unsigned long long)sum.lost);
    mt_core_sink_close(killed);
    if (mt_g.o->mat_files)
        mt_sourcelines_write();
}

void mt_core_incomplete(const char *why)
{
    mt_g.incomplete = 1;
    mt_plat_report("%s", why);
}

void mt_core_forked(void)
{
    __atomic_store_n(&mt_g.on, 0, __ATOMIC_SEQ_CST);
    mt_g.forked = 1;
    started = 0;
    if (mt_g.slot) {
        mt_core_sink_forked();
        mt_core_ring();
    }
}

void mt_core_child(void)
{
    __atomic_add_fetch(&mt_g.children, 1, __ATOMIC_RELAXED);
}

int mt_core_on(void)
{
    return mt_on();
}

const struct mt_core_options *mt_core_options(void)
{
    return mt_g.o;
}

void mt_core_switch(int on)
{
    if (!mt_g.slot)
        return;
    __atomic_store_n(&mt_g.switched, on ? 1u : 0u, __ATOMIC_SEQ_CST);
    mt_core_ring();
}
