/* The formats of simulators. Each is written from its project's own definition; docs/simulators.md names
 * them. */
#define _GNU_SOURCE
#include "convert_sim.h"
#include "memtrace/grow.h"
#include <inttypes.h>
#include <string.h>

static int sim_nothing(struct mt_sim_writer *w)
{
    (void)w;
    return 0;
}

/* The system's number of a thread, never 0. */
static uint64_t sim_native(const struct mt_sim_writer *w, uint64_t thread)
{
    const struct mt_companion *c = w->companion;
    for (size_t i = 0; c && i < c->nthreads; i++)
        if (c->threads[i].number == thread && c->threads[i].native)
            return c->threads[i].native;
    return thread + 1;
}

/* The place of the thread in w->threads; *is_new: it was not there. SIZE_MAX without memory. */
static size_t sim_meet(struct mt_sim_writer *w, uint64_t thread, int *is_new)
{
    uint64_t *at = mt_pairmap_get(&w->met, thread, 0, 0);
    *is_new = at && !*at;
    if (!at || (*is_new && mt_grow(&w->threads, &w->thread_room, w->nthreads + 1, sizeof *w->threads) != 0))
        return SIZE_MAX;
    if (*is_new) {
        w->threads[w->nthreads++] = sim_native(w, thread);
        *at = w->nthreads;
    }
    return *at - 1;
}

/* A piece of an access; the next one begins where it ends, up to the end of a block. */
static uint32_t sim_piece(const struct mt_sim_access *a, uint32_t done)
{
    uint32_t to_edge = MT_SIM_BLOCK - (uint32_t)((a->address + done) & (MT_SIM_BLOCK - 1));
    return a->size - done < to_edge ? a->size - done : to_edge;
}

/* ---- drmemtrace: entries of 12 bytes ---- */

enum {
    READ = 0,
    WRITE = 1,
    THREAD = 22,
    THREAD_EXIT = 23,
    PID = 24,
    HEADER = 25,
    FOOTER = 26,
    MARKER = 28,
    NO_FETCH = 29
};
enum { TIMESTAMP = 2, CPU_ID = 3, FILETYPE = 9, CACHE_LINE_SIZE = 10, VERSION = 12 }; /* markers */
enum { FORMAT = 4, X86_64 = 0x40, IFILTERED = 0x80, ENTRY_MOST = 1 << 15 };

static void drmemtrace_put(struct mt_sim_writer *w, uint16_t type, uint16_t size, uint64_t value)
{
    unsigned char entry[12];
    memcpy(entry, &type, 2);
    memcpy(entry + 2, &size, 2);
    memcpy(entry + 4, &value, 8);
    fwrite(entry, 1, sizeof entry, w->f);
}

static int drmemtrace_begin(struct mt_sim_writer *w)
{
    drmemtrace_put(w, HEADER, 0, FORMAT);
    drmemtrace_put(w, MARKER, VERSION, FORMAT);
    drmemtrace_put(w, MARKER, FILETYPE,
                   X86_64 | IFILTERED); /* instructions that access no memory are not there */
    return 0;
}

static int drmemtrace_access(struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    if (a->thread != w->thread) {
        int is_new;
        size_t at = sim_meet(w, a->thread, &is_new);
        if (at == SIZE_MAX)
            return -1;
        drmemtrace_put(w, THREAD, 0, w->threads[at]);
        if (is_new) {
            drmemtrace_put(w, PID, 0, w->companion->pid ? w->companion->pid : 1);
            drmemtrace_put(w, MARKER, CACHE_LINE_SIZE, MT_SIM_BLOCK);
            drmemtrace_put(w, MARKER, TIMESTAMP, 1); /* drcachesim wants a time before the first access */
            drmemtrace_put(w, MARKER, CPU_ID, at);
        }
    }
    drmemtrace_put(w, NO_FETCH, 0, a->ip); /* of the entries that follow */
    for (int write = 0; write < 2; write++)
        for (uint32_t done = 0; (write ? a->writes : a->reads) && done < a->size; done += ENTRY_MOST)
            drmemtrace_put(w, write ? WRITE : READ,
                           (uint16_t)(a->size - done < ENTRY_MOST ? a->size - done : ENTRY_MOST),
                           a->address + done);
    return 0;
}

static int drmemtrace_end(struct mt_sim_writer *w)
{
    for (size_t i = 0; i < w->nthreads; i++)
        drmemtrace_put(w, THREAD_EXIT, 0, w->threads[i]);
    drmemtrace_put(w, FOOTER, 0, 0);
    return 0;
}

/* ---- champsim: an instruction of 64 bytes ---- */

static int champsim_end(struct mt_sim_writer *w)
{
    struct {
        uint64_t ip;
        unsigned char branch[2], registers[6];
        uint64_t store[2], load[4];
    } instruction = {.ip = w->last.ip};
    _Static_assert(sizeof instruction == 64, "input_instr of ChampSim");
    if (!w->under_way)
        return 0;
    memcpy(instruction.store, w->store, w->nstore * sizeof *w->store);
    memcpy(instruction.load, w->load, w->nload * sizeof *w->load);
    fwrite(&instruction, 1, sizeof instruction, w->f);
    w->under_way = w->nload = w->nstore = 0;
    return 0;
}

/* Another operand of the instruction under way, not its next execution? */
static int champsim_same(const struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    if (!w->under_way || a->instruction != w->last.instruction || a->thread != w->last.thread ||
        a->time != w->last.time || w->nload + (unsigned)a->reads > 4 || w->nstore + (unsigned)a->writes > 2)
        return 0;
    for (unsigned i = 0; i < w->under_way; i++)
        if (w->sites[i] == a->site && !a->time)
            return 0;
    return w->under_way < sizeof w->sites / sizeof *w->sites;
}

static int champsim_access(struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    if (!champsim_same(w, a))
        champsim_end(w);
    w->last = *a;
    w->sites[w->under_way++] = a->site;
    if (a->reads)
        w->load[w->nload++] = a->address;
    if (a->writes)
        w->store[w->nstore++] = a->address;
    return 0;
}

/* ---- ramulator: a line for each block ---- */

static int ramulator_access(struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    for (int write = 0; write < 2; write++)
        for (uint32_t done = 0; (write ? a->writes : a->reads) && done < a->size; done += sim_piece(a, done))
            fprintf(w->f, "%s 0x%" PRIx64 "\n", write ? "ST" : "LD", (a->address + done) & INT64_MAX);
    return 0;
}

/* ---- gem5: messages of protobuf, each after its length ---- */

struct message {
    unsigned char bytes[128];
    size_t n;
};
enum { VARINT = 0, TEXT = 2 };

static void gem5_varint(struct message *m, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        m->bytes[m->n++] = (unsigned char)(v | 0x80);
    m->bytes[m->n++] = (unsigned char)v;
}

static void gem5_number(struct message *m, unsigned field, uint64_t v)
{
    gem5_varint(m, field << 3 | VARINT);
    gem5_varint(m, v);
}

static void gem5_put(struct mt_sim_writer *w, const struct message *m)
{
    struct message length = {.n = 0};
    gem5_varint(&length, m->n);
    fwrite(length.bytes, 1, length.n, w->f);
    fwrite(m->bytes, 1, m->n, w->f);
}

/* PacketHeader: who wrote it, and ticks in a second. */
static int gem5_begin(struct mt_sim_writer *w)
{
    static const char name[] = "memtrace";
    struct message m = {.n = 0};
    fwrite("gem5", 1, 4, w->f);
    gem5_varint(&m, 1 << 3 | TEXT);
    gem5_varint(&m, sizeof name - 1);
    memcpy(m.bytes + m.n, name, sizeof name - 1);
    m.n += sizeof name - 1;
    gem5_number(&m, 3, UINT64_C(1000000000000));
    gem5_put(w, &m);
    return 0;
}

/* Packets: one for each block, an access each nanosecond. */
static int gem5_access(struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    enum { READ_REQ = 1, WRITE_REQ = 4 };
    for (int write = 0; write < 2; write++)
        for (uint32_t done = 0, n; (write ? a->writes : a->reads) && done < a->size; done += n) {
            struct message m = {.n = 0};
            n = sim_piece(a, done);
            gem5_number(&m, 1, 1000 * w->count);
            gem5_number(&m, 2, write ? WRITE_REQ : READ_REQ);
            gem5_number(&m, 3, a->address + done);
            gem5_number(&m, 4, n);
            gem5_number(&m, 6, a->thread);
            if (a->ip)
                gem5_number(&m, 7, a->ip);
            gem5_put(w, &m);
        }
    return 0;
}

const struct mt_sim_format mt_sim_formats[MT_SIMS] = {
    [MT_SIM_DRMEMTRACE] = {drmemtrace_begin, drmemtrace_access, drmemtrace_end},
    [MT_SIM_CHAMPSIM] = {sim_nothing, champsim_access, champsim_end},
    [MT_SIM_RAMULATOR] = {sim_nothing, ramulator_access, sim_nothing},
    [MT_SIM_GEM5] = {gem5_begin, gem5_access, sim_nothing},
};
