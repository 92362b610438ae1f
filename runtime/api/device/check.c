/* MEMTRACE_CHECK=1 on the CPU device: bad accesses are reported,
 * counted per place and written into companions. */
#include "check.h"
#include "device_heap.h"
#include "heap.h"
#include "trace/companion.h"
#include "trace/events.h"
#include "base/options.h"
#include "trace/ranges.h"
#include "base/report.h"
#include "base/short.h"
#include "cpu/cpu.h"
#include "memtrace/record.h"
#include "base/fork.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FULL_PER_PLACE 3 /* reports of one place of one launch that are printed in full */
#define FULL_IN_ALL 64   /* of the process */
#define NEAR 1024u       /* bytes: this close to an allocation it is surely meant */
#define FAR (1u << 20)   /* bytes: an allocation farther away has nothing to do with it */
#define GONE 256         /* blocks that kernels freed last */

/* The bad accesses of one launch at one place, of one kind. */
struct bad_access {
    const struct mt_cpu_launch *launch;
    struct mt_cpu_bad first;
    uint64_t count;
    char near[256];
    struct bad_access *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static struct bad_access *places;
static unsigned printed;
static struct mt_range gone[GONE];
static _Atomic unsigned ngone;

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* ---- where an address lies ---- */

static const char *const what[] = {
    [MT_HEAP_DEVICE] = "device memory",     [MT_HEAP_MANAGED] = "managed memory",
    [MT_HEAP_HOST] = "pinned host memory",  [MT_HEAP_REGISTERED] = "registered host memory",
    [MT_HEAP_SYMBOL] = "a device variable", [MT_HEAP_IPC] = "another process's memory",
};

static void at_site(char *text, size_t size, const struct mt_host_site *s, const char *verb)
{
    if (mt_host_site_there(s))
        snprintf(text, size, " %s at %s:%u", verb, base_name(s->file), s->line);
    else
        snprintf(text, size, "%s", "");
}

static void describe_block(char *text, size_t size, uint64_t distance, const char *where,
                           const struct mt_block *b)
{
    char made[160];
    char away[40] = "right";
    at_site(made, sizeof made, b->site, "allocated");
    if (distance)
        snprintf(away, sizeof away, "%llu byte%s", (unsigned long long)distance, distance == 1 ? "" : "s");
    snprintf(text, size, "%s %s %llu bytes of %s%s", away, where, (unsigned long long)b->bytes, what[b->kind],
             made);
}

/* Does the process have any memory there? */
static int is_mapped(uint64_t address)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long long low, high;
    int found = 0;
    char line[512];
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%llx-%llx r", &low, &high) == 2 && address >= low && address < high;
    if (f)
        fclose(f);
    return found;
}

/* Memory that kernels allocated: around the address, or freed there. */
static int describe_device_heap(uint64_t address, char *text, size_t size)
{
    struct mt_range below, above;
    mt_device_heap_around(address, &below, &above);
    if (below.bytes && address - below.base < below.bytes + 16) {
        snprintf(text, size, "byte %llu of %llu bytes that a kernel allocated",
                 (unsigned long long)(address - below.base), (unsigned long long)below.bytes);
        return 1;
    }
    for (int i = 0; i < GONE; i++)
        if (address - gone[i].base < gone[i].bytes) {
            snprintf(text, size, "inside freed memory: %llu bytes that a kernel allocated",
                     (unsigned long long)gone[i].bytes);
            return 1;
        }
    return 0;
}

static int describe_freed(uint64_t address, char *text, size_t size)
{
    struct mt_block b;
    char made[160], gone[160];
    if (!mt_heap_find_freed(address, &b))
        return 0;
    at_site(made, sizeof made, b.site, "allocated");
    at_site(gone, sizeof gone, b.freed, "freed");
    snprintf(text, size, "inside freed memory: %llu bytes%s,%s", (unsigned long long)b.bytes, made,
             *gone ? gone : " freed");
    return 1;
}

static uint64_t check_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void check_describe(uint64_t address, char *text, size_t size, int look_for_host)
{
    struct mt_block below, above;
    mt_heap_around(address, &below, &above);
    uint64_t behind = below.bytes ? address - below.base : UINT64_MAX,
             before = above.bytes ? above.base - address : UINT64_MAX;
    if (below.bytes && behind < below.bytes) {
        char made[160];
        at_site(made, sizeof made, below.site, "allocated");
        snprintf(text, size, "byte %llu of %llu bytes of %s%s", (unsigned long long)behind,
                 (unsigned long long)below.bytes, what[below.kind], made);
    } else if (address < 65536)
        snprintf(text, size, "a null pointer");
    else if (describe_freed(address, text, size) || describe_device_heap(address, text, size))
        return;
    else if (check_min(before, behind - below.bytes) >= NEAR && look_for_host && is_mapped(address))
        snprintf(text, size, "memory of the host program that is neither pinned, managed nor registered");
    else if (below.bytes && behind - below.bytes < FAR && behind - below.bytes <= before)
        describe_block(text, size, behind - below.bytes, "after the", &below);
    else if (above.bytes && before < FAR)
        describe_block(text, size, before, "in front of the", &above);
    else
        snprintf(text, size, "no allocation is near");
}

/* Words on where `address` lies: "16 bytes after the 400 bytes that were allocated at file.cu:12". */
static void mt_check_describe(uint64_t address, char *text, size_t size)
{
    check_describe(address, text, size, 0); /* from a signal handler: no stdio on files */
}

/* ---- looking up ---- */

void mt_check_device_heap(const struct mt_range *freed)
{
    if (!mt_options()->check)
        return;
    if (freed)
        gone[ngone++ % GONE] = *freed; /* for words only: a torn one does no harm */
    mt_heap_generation++;
}

static int check_find(uint64_t address, uint64_t *base, uint64_t *bytes)
{
    struct mt_block b;
    struct mt_range r;
    if (mt_heap_find((const void *)(uintptr_t)address, &b)) {
        *base = b.base;
        *bytes = b.bytes;
        return 1;
    }
    if (!mt_device_heap_find(address, &r))
        return 0;
    *base = r.base;
    *bytes = r.bytes;
    return 1;
}

/* ---- reporting ---- */

static const char *const verbs[] = {"load", "store", "atomic", "access"};

static const struct mt_image_site *site_of(const struct mt_cpu_bad *bad)
{
    static const struct mt_image_site unknown = {.file = "", .function = "", .variable = ""};
    const struct mt_image_head *head = bad->image->head;
    return bad->site < head->nsites ? (const struct mt_image_site *)head->sites + bad->site : &unknown;
}

static const struct mt_launch_line *line_of(const struct mt_cpu_launch *l)
{
    return l->user;
}

static void check_print(const struct mt_cpu_bad *bad, const char *near)
{
    const struct mt_image_site *s = site_of(bad);
    const struct mt_launch_line *l = line_of(bad->launch);
    char how[64] = "", variable[160] = "", launch[160] = "";
    if (bad->code == 716)
        snprintf(how, sizeof how, ", which is not a multiple of %u", bad->align);
    if (s->variable && *(const char *)s->variable)
        snprintf(variable, sizeof variable, " through `%.120s`", (const char *)s->variable);
    if (l && l->site)
        snprintf(launch, sizeof launch, ", launched at %.120s:%u", base_name(l->site->file), l->site->line);
    mt_report("check: kernel %s%s: %s of %u bytes%s at 0x%llx%s, %s:%u in %s, CTA (%u,%u,%u), thread "
              "(%u,%u,%u): %s",
              mt_short((const char *)bad->launch->kernel->pretty).text, launch, verbs[bad->type & 3],
              bad->bytes, variable, (unsigned long long)bad->address, how, base_name(s->file), s->line,
              mt_short((const char *)s->function).text, bad->cta[0], bad->cta[1], bad->cta[2], bad->thread[0],
              bad->thread[1], bad->thread[2], near);
}

static int same_place(const struct bad_access *p, const struct mt_cpu_bad *bad)
{
    return p->launch == bad->launch && p->first.image == bad->image && p->first.site == bad->site &&
           p->first.code == bad->code;
}

static void check_report(const struct mt_cpu_bad *bad)
{
    struct bad_access *p;
    pthread_mutex_lock(&lock);
    for (p = places; p && !same_place(p, bad); p = p->next)
        ;
    if (!p && (p = calloc(1, sizeof *p))) {
        p->launch = bad->launch;
        p->first = *bad;
        check_describe(bad->address, p->near, sizeof p->near, 1);
        p->next = places;
        places = p;
    }
    if (p && ++p->count <= FULL_PER_PLACE && printed < FULL_IN_ALL) {
        char near[256];
        check_describe(bad->address, near, sizeof near, 1);
        printed++;
        check_print(bad, near);
    }
    pthread_mutex_unlock(&lock);
}

static void sum_up(const struct bad_access *p)
{
    const struct mt_image_site *s = site_of(&p->first);
    const struct mt_launch_line *l = line_of(p->launch);
    struct mt_event_check c = {
        .kernel = p->launch->kernel->pretty,
        .why = p->first.code == 716 ? "misaligned" : "illegal",
        .near = p->near,
        .launch = l ? l->seq : 0,
        .site = (uint64_t)p->first.image->site_base + p->first.site,
        .file = s->file,
        .line = s->line,
        .op = p->first.type,
        .bytes = p->first.bytes,
        .address = p->first.address,
        .count = p->count,
    };
    memcpy(c.cta, p->first.cta, sizeof c.cta);
    memcpy(c.thread, p->first.thread, sizeof c.thread);
    mt_event_check(&c);
    if (p->count > FULL_PER_PLACE)
        mt_report("check: kernel %s: %s:%u: %llu bad accesses in all", mt_short((const char *)c.kernel).text,
                  base_name(s->file), s->line, (unsigned long long)p->count);
}

static uint64_t check_end(const struct mt_cpu_launch *launch)
{
    uint64_t n = 0;
    pthread_mutex_lock(&lock);
    for (struct bad_access **p = &places; *p;) {
        struct bad_access *now = *p;
        if (now->launch != launch) {
            p = &now->next;
            continue;
        }
        n += now->count;
        sum_up(now);
        *p = now->next;
        free(now);
    }
    pthread_mutex_unlock(&lock);
    return n;
}

void mt_check_start(void)
{
    static const struct mt_cpu_checker checker = {&mt_heap_generation, check_find, check_report, check_end};
    mt_cpu_set_describe(mt_check_describe);
    if (mt_options()->check)
        mt_cpu_set_checker(&checker);
}
