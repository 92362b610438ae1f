/* Start, stop and fork of the tracer. */
#include "output.h"
#include "state.h"
#include "format/host_text.h"
#include "atomic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* sourcelines.txt: `IP FILE:LINE` for each instruction with an access in the trace, by ascending IP; ":0"
 * for an unknown location. MAT's scripts look up each IP in it. */

#define BLOCK 65536u

struct line {
    uint64_t ip;
    const struct mt_core_kept_site *site;
};

static char sourcelines[4096 + 32]; /* absolute, as the program may change folders */

/* Names the file beside the trace, or in the current folder if the trace is not a file of its own. */
static void sourcelines_start(void)
{
    const char *output = mt_g.o->output, *slash = strrchr(output, '/');
    size_t n = 0;
    if (*output != '/' || mt_core_sink_is_fifo()) {
        long got = mt_sys(__NR_readlink, (long)"/proc/self/cwd", (long)sourcelines, 4095, 0, 0, 0);
        n = got > 0 ? (size_t)got : 0;
        sourcelines[n++] = '/';
    }
    if (slash && !mt_core_sink_is_fifo() && n + (size_t)(slash + 1 - output) < 4096) {
        memcpy(sourcelines + n, output, (size_t)(slash + 1 - output));
        n += (size_t)(slash + 1 - output);
    }
    strcpy(sourcelines + n, "sourcelines.txt");
}

static int sourcelines_order(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return (x->ip > y->ip) - (x->ip < y->ip);
}

/* Collects all instructions that were written; `l` has room for four operands of each. */
static size_t sourcelines_collect(struct line *l)
{
    size_t n = 0;
    for (uint32_t i = 1; i < mt_site_instructions(); i++) {
        const struct mt_core_kept_site *s = mt_site_of(i << 2);
        if (!s || !s->shown)
            continue;
        if (s->ip)
            l[n++] = (struct line){s->ip, s};
        for (unsigned k = 0; !s->ip && k < s->operands; k++)
            l[n++] = (struct line){(i << 2) + k, s};
    }
    qsort(l, n, sizeof *l, sourcelines_order);
    return n;
}

static int sourcelines_put(struct mt_core_output *o, const struct line *l, size_t n, char *block)
{
    size_t used = 0;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (i && l[i].ip == l[i - 1].ip)
            continue;
        if (BLOCK - used < MT_TEXT_LINE) {
            rc = mt_core_output_write(o, block, used);
            used = 0;
        }
        used += mt_text_mat_location(block + used, BLOCK - used, l[i].ip, l[i].site->file, l[i].site->line);
    }
    return rc ? rc : mt_core_output_write(o, block, used);
}

/* The second file of --mat-files. Its name is made at the start, the file at the end. */
static void sourcelines_write(void)
{
    char why[1200];
    struct mt_core_output o;
    size_t bytes = (size_t)mt_site_instructions() * 4 * sizeof(struct line);
    if (mt_core_output_open(&o, sourcelines, why, sizeof why)) {
        mt_plat_report("%s; the trace has no places", why);
        return;
    }
    struct line *l = mt_plat_map(bytes);
    char *block = mt_plat_map(BLOCK);
    int rc = l && block ? sourcelines_put(&o, l, sourcelines_collect(l), block) : ENOMEM;
    if (rc)
        mt_plat_report("%s: %s; places are missing", sourcelines, strerror(rc));
    mt_core_output_close(&o);
    mt_plat_unmap(block, BLOCK);
    mt_plat_unmap(l, bytes);
}

/* ---- Functions traced by name: numbers, and the names in -f FILE and --routine ---- */

static const char *const annotations[] = {[MT_CORE_FN_REGISTER] = "atomic_trace::register_thread",
                                          [MT_CORE_FN_START_ROI] = "atomic_trace::start_roi",
                                          [MT_CORE_FN_END_ROI] = "atomic_trace::end_roi"};
/* The annotation functions' C names. */
static const char *const c_names[] = {[MT_CORE_FN_REGISTER] = "mt_register_thread",
                                      [MT_CORE_FN_START_ROI] = "mt_start_roi",
                                      [MT_CORE_FN_END_ROI] = "mt_end_roi"};
#define FIRST 4u
#define MAX 65536u
#define SHOWN 8u /* maximum number of unused names that are listed */

struct name {
    const char *text;
    uint32_t seen; /* 1: some module has such a function */
};
static struct name *names; /* names after the fixed ones, from FIRST on */
static uint32_t count;

static int functions_add(const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(names[i].text, name))
            return 0;
    if (count == MAX)
        return -1;
    names[count++] = (struct name){name, 0};
    return 0;
}

/* Reads one name per line, without surrounding blanks and empty lines. Cuts `text` into lines. */
static int add_lines(char *text)
{
    for (char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        char *next = line + n + (line[n] != 0), *end = line + n;
        while (*line == ' ' || *line == '\t')
            line++;
        while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
            end--;
        *end = 0;
        if (*line && functions_add(line))
            return -1;
        line = next;
    }
    return 0;
}

static int functions_start(char *why, unsigned size)
{
    size_t bytes;
    if (!names && !(names = mt_plat_map(MAX * sizeof *names))) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    for (unsigned i = 0; i < mt_g.o->routine.count; i++)
        functions_add(mt_g.o->routine.item[i]);
    if (!*mt_g.o->functions)
        return 0;
    char *text = mt_core_output_slurp(mt_g.o->functions, &bytes, why, size); /* the names point into it */
    if (!text)
        return -1;
    if (add_lines(text)) {
        snprintf(why, size, "%s names more than %u functions", mt_g.o->functions, MAX);
        return -1;
    }
    return 0;
}

/* into the compact trace */
static void functions_lines(void)
{
    for (uint32_t i = 0; i < count; i++)
        mt_core_sink_line(MT_LINE_function, &(struct mt_function_line){i + FIRST, names[i].text});
}

uint32_t mt_core_function(const char *name)
{
    for (uint32_t i = MT_CORE_FN_REGISTER; i <= MT_CORE_FN_END_ROI; i++)
        if (!strcmp(name, annotations[i]) || !strcmp(name, c_names[i]))
            return i;
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(name, names[i].text)) {
            __atomic_store_n(&names[i].seen, 1, __ATOMIC_RELAXED);
            return i + FIRST;
        }
    return 0;
}

int mt_core_symbol_is_part(const char *symbol)
{
    const char *dot = strchr(symbol, '.');
    return dot && (strstr(dot, ".cold") || strstr(dot, ".part."));
}

/* Reports names that no module has: mistakes, or functions inlined everywhere. */
static void functions_unseen(void)
{
    char text[600] = "";
    uint32_t unseen = 0, shown = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t n = strlen(text);
        if (names[i].seen)
            continue;
        if (unseen++ < SHOWN && n + strlen(names[i].text) + 4 < sizeof text) {
            snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", names[i].text);
            shown++;
        }
    }
    if (unseen)
        mt_plat_report(
            "no function is called %s%s; names are undecorated, as ns::f, and a function that is inlined "
            "everywhere does not count",
            text, unseen > shown ? " …" : "");
}

const char *mt_function_name(uint64_t id)
{
    return id >= FIRST && id - FIRST < count ? names[id - FIRST].text : "?";
}

/* Regions traced in mat mode: routines. (Signals: mt_core_switch, regions: functions.) */

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
    if (functions_start(why, size) || mt_core_sink_open(why, size))
        return -1;
    if (used.mat_files)
        sourcelines_start();
    if ((options->mode == MT_CORE_ATOMIC && (mt_order_start(why, size) || mt_atomic_open(why, size))) ||
        (options->mode == MT_CORE_INSN && mt_insn_start(why, size))) {
        mt_core_sink_close(0);
        return -1;
    }
    __atomic_store_n(&started, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&mt_g.on, 1, __ATOMIC_SEQ_CST);
    functions_lines();
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
    functions_unseen();
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
        sourcelines_write();
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
