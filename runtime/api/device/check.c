/* MEMTRACE_CHECK=1, or several GPUs, on the CPU device: bad accesses are reported,
 * counted per place and written into companions. */
#include "check.h"
#include "device_heap.h"
#include "heap.h"
#include "trace/companion.h"
#include "trace/trace.h"
#include "trace/events.h"
#include "trace/devices.h"
#include "base/options.h"
#include "trace/objects.h"
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

/* Where an access lies. */
struct check_where {
    char near[512];
    const char *side;
    int64_t alloc; /* id of the allocation that is meant; -1: none */
    uint64_t distance;
};

/* The bad accesses of one launch at one place, of one kind. */
struct bad_access {
    const struct mt_cpu_launch *launch;
    struct mt_cpu_bad first;
    uint64_t count;
    struct check_where where;
    struct bad_access *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static struct bad_access *places;
static unsigned printed;
static struct {
    struct mt_range range;
    int64_t id; /* -1: not known */
} gone[GONE];
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
    if (mt_host_site_there(s) && s->line)
        snprintf(text, size, " %s at %s:%u", verb, base_name(s->file), s->line);
    else
        snprintf(text, size, "%s", "");
}

struct check_device {
    char text[24];
};

/* " of GPU 1", where there are several. */
static struct check_device check_whose(const struct mt_block *b)
{
    struct check_device d = {""};
    if (mt_devices() > 1 && (b->kind == MT_HEAP_DEVICE || b->kind == MT_HEAP_IPC))
        snprintf(d.text, sizeof d.text, " of GPU %d", b->device);
    return d;
}

static void describe_block(struct check_where *w, uint64_t distance, const char *where,
                           const struct mt_block *b)
{
    char made[160];
    char away[40] = "right";
    at_site(made, sizeof made, b->site, "allocated");
    if (distance)
        snprintf(away, sizeof away, "%llu byte%s", (unsigned long long)distance, distance == 1 ? "" : "s");
    snprintf(w->near, sizeof w->near, "%s %s %llu bytes of %s%s%s", away, where, (unsigned long long)b->bytes,
             what[b->kind], check_whose(b).text, made);
    w->alloc = b->id - 1;
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
static int describe_device_heap(uint64_t address, uint64_t bytes, struct check_where *w)
{
    struct mt_range below, above;
    mt_device_heap_around(address, &below, &above);
    uint64_t behind = address - below.base;
    if (below.bytes && behind < below.bytes + 16) {
        snprintf(w->near, sizeof w->near, "byte %llu of %llu bytes that a kernel allocated",
                 (unsigned long long)behind, (unsigned long long)below.bytes);
        w->side = behind + bytes <= below.bytes ? "inside" : "after";
        w->alloc = mt_object_id((const void *)(uintptr_t)below.base);
        w->distance = behind > below.bytes ? behind - below.bytes : *w->side == 'i' ? behind : 0;
        return 1;
    }
    for (int i = 0; i < GONE; i++)
        if (address - gone[i].range.base < gone[i].range.bytes) {
            snprintf(w->near, sizeof w->near, "inside freed memory: %llu bytes that a kernel allocated",
                     (unsigned long long)gone[i].range.bytes);
            w->side = "freed";
            w->alloc = gone[i].id;
            w->distance = address - gone[i].range.base;
            return 1;
        }
    return 0;
}

static int describe_freed(uint64_t address, struct check_where *w)
{
    struct mt_block b;
    char made[160], freed[160];
    if (!mt_heap_find_freed(address, &b))
        return 0;
    at_site(made, sizeof made, b.site, "allocated");
    at_site(freed, sizeof freed, b.freed, "freed");
    snprintf(w->near, sizeof w->near, "inside freed memory: %llu bytes%s%s%s", (unsigned long long)b.bytes,
             made, *freed ? "," : "", freed);
    w->side = "freed";
    w->alloc = b.id - 1;
    w->distance = address - b.base;
    return 1;
}

/* So far behind a block nothing is the host program's: what heap.c leaves free, or a little of what is not
 * ours. */
static uint64_t check_own(const struct mt_block *b)
{
    return b->kind == MT_HEAP_REGISTERED || b->kind == MT_HEAP_SYMBOL ? NEAR : MT_HEAP_GAP;
}

static void describe_inside(uint64_t behind, uint64_t bytes, const struct mt_block *b, struct check_where *w)
{
    char made[160];
    at_site(made, sizeof made, b->site, "allocated");
    snprintf(w->near, sizeof w->near, "byte %llu of %llu bytes of %s%s%s", (unsigned long long)behind,
             (unsigned long long)b->bytes, what[b->kind], check_whose(b).text, made);
    w->alloc = b->id - 1;
    w->side = behind + bytes <= b->bytes ? "inside" : "after";
    w->distance = *w->side == 'i' ? behind : 0;
}

/* Of an access of `bytes`. */
static void check_describe(uint64_t address, uint64_t bytes, struct check_where *w, int look_for_host)
{
    struct mt_block below, above;
    *w = (struct check_where){.side = "none", .alloc = -1};
    mt_heap_around(address, &below, &above);
    uint64_t behind = below.bytes ? address - below.base : UINT64_MAX,
             before = above.bytes ? above.base - address : UINT64_MAX, after = behind - below.bytes;
    if (below.bytes && behind < below.bytes)
        describe_inside(behind, bytes, &below, w);
    else if (address < 65536) {
        snprintf(w->near, sizeof w->near, "a null pointer");
        w->side = "null";
    } else if (describe_freed(address, w) || describe_device_heap(address, bytes, w))
        return;
    else if (before >= NEAR && after >= check_own(&below) && look_for_host && is_mapped(address)) {
        snprintf(w->near, sizeof w->near,
                 "memory of the host program that is neither pinned, managed nor registered");
        w->side = "host";
    } else if (below.bytes && after < FAR && after <= before) {
        describe_block(w, after, "after the", &below);
        w->side = "after";
        w->distance = after;
    } else if (above.bytes && before < FAR) {
        describe_block(w, before, "in front of the", &above);
        w->side = "before";
        w->distance = before < bytes ? 0 : before - bytes;
    } else
        snprintf(w->near, sizeof w->near, "no allocation is near");
}

/* Words on where `address` lies: "16 bytes after the 400 bytes that were allocated at file.cu:12". */
static void describe_fault(uint64_t address, char *text, size_t size)
{
    struct check_where w;
    check_describe(address, 1, &w, 0); /* from a signal handler: no stdio on files */
    snprintf(text, size, "%s", w.near);
}

void mt_check_words(const void *p, char *text, size_t size)
{
    struct check_where w;
    check_describe((uint64_t)(uintptr_t)p, 1, &w, 1);
    snprintf(text, size, "%s", w.near);
}

/* ---- looking up ---- */

void mt_check_device_heap(const struct mt_range *freed)
{
    if (!mt_options()->check)
        return;
    unsigned i = freed ? ngone++ % GONE : 0; /* for words only: a torn one does no harm */
    if (freed) {
        gone[i].range = *freed;
        gone[i].id = mt_object_id((const void *)(uintptr_t)freed->base);
    }
    mt_heap_generation++;
}

static int check_find(int device, uint64_t address, uint64_t *base, uint64_t *bytes)
{
    struct mt_block b;
    struct mt_range r;
    uint64_t reach = mt_heap_reach((const void *)(uintptr_t)address, device, &b);
    if (reach) {
        *base = b.base;
        *bytes = address - b.base + reach;
        return mt_heap_reaches(device, &b);
    }
    if (!mt_device_heap_find(address, &r))
        return 0;
    *base = r.base;
    *bytes = r.bytes;
    return 1;
}

/* Without MEMTRACE_CHECK only other devices' memory is none to touch. */
static int check_find_peers(int device, uint64_t address, uint64_t *base, uint64_t *bytes)
{
    struct mt_block below, above;
    if (mt_heap_find((const void *)(uintptr_t)address, &below))
        return check_find(device, address, base, bytes);
    mt_heap_around(address, &below, &above);
    *base = below.bytes ? below.base + below.bytes : 0;
    *bytes = (above.bytes ? above.base : UINT64_MAX) - *base;
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
    if (bad->align && bad->kind == MT_FINDING_OF_MISALIGNED)
        snprintf(how, sizeof how, ", which is not a multiple of %u", bad->align);
    if (s->variable && *(const char *)s->variable)
        snprintf(variable, sizeof variable, " through `%.120s`", (const char *)s->variable);
    if (l && l->site && l->site->line)
        snprintf(launch, sizeof launch, ", launched at %.120s:%u", base_name(l->site->file), l->site->line);
    mt_note("check: kernel %s%s: %s of %u bytes%s at 0x%llx%s, %s:%u in %s, CTA (%u,%u,%u), thread "
            "(%u,%u,%u): %s",
            mt_short((const char *)bad->launch->kernel->pretty).text, launch, verbs[bad->type & 3],
            bad->bytes, variable, (unsigned long long)bad->address, how, base_name(s->file), s->line,
            mt_short((const char *)s->function).text, bad->cta[0], bad->cta[1], bad->cta[2], bad->thread[0],
            bad->thread[1], bad->thread[2], near);
}

/* Of what is no access. */
static void check_print_words(const struct mt_cpu_bad *bad)
{
    mt_note("check: kernel %s, CTA (%u,%u,%u), thread (%u,%u,%u): %s",
            mt_short((const char *)bad->launch->kernel->pretty).text, bad->cta[0], bad->cta[1], bad->cta[2],
            bad->thread[0], bad->thread[1], bad->thread[2], bad->words);
}

static const char *after_number(const char *s)
{
    return strncmp(s, "0x", 2) == 0 ? s + 2 + strspn(s + 2, "0123456789abcdef") : s + strspn(s, "0123456789");
}

/* Words that say the same of other lanes and addresses. */
static int same_reason(const char *a, const char *b)
{
    a = after_number(a);
    b = after_number(b);
    while (*a && *a == *b) {
        a = after_number(a + 1);
        b = after_number(b + 1);
    }
    return *a == *b;
}

static int same_place(const struct bad_access *p, const struct mt_cpu_bad *bad)
{
    if (bad->words && !same_reason(p->where.near, bad->words))
        return 0;
    return p->launch == bad->launch && p->first.image == bad->image && p->first.site == bad->site &&
           p->first.place == bad->place && p->first.kind == bad->kind;
}

/* Memory that is there, and another device's. */
static void check_forbidden(const struct mt_cpu_bad *bad, struct check_where *w)
{
    struct mt_block b;
    size_t n = strlen(w->near);
    if (mt_heap_find((const void *)(uintptr_t)bad->address, &b) && !mt_heap_reaches(bad->launch->device, &b))
        snprintf(w->near + n, sizeof w->near - n, ", which GPU %d does not reach: it is no peer of it",
                 bad->launch->device);
}

static void check_look(const struct mt_cpu_bad *bad, struct check_where *w)
{
    if (!bad->words) {
        check_describe(bad->address, bad->bytes, w, 1);
        check_forbidden(bad, w);
        return;
    }
    *w = (struct check_where){.alloc = -1};
    snprintf(w->near, sizeof w->near, "%s", bad->words);
}

static struct bad_access *check_place(const struct mt_cpu_bad *bad)
{
    struct bad_access *p;
    for (p = places; p && !same_place(p, bad); p = p->next)
        ;
    if (p || !(p = calloc(1, sizeof *p)))
        return p;
    p->launch = bad->launch;
    p->first = *bad;
    check_look(bad, &p->where);
    p->next = places;
    places = p;
    return p;
}

/* Has another launch said so in full? */
static int check_is_said(const struct mt_cpu_bad *bad)
{
    const struct mt_launch_line *l = line_of(bad->launch);
    static struct {
        uint64_t launch;
        const struct mt_image *image;
        const void *place;
        enum mt_finding_kind kind;
        uint32_t site;
    } said[FULL_IN_ALL];
    static unsigned n;
    unsigned i = 0;
    while (i < n && !(said[i].image == bad->image && said[i].site == bad->site &&
                      said[i].place == bad->place && said[i].kind == bad->kind))
        i++;
    if (i < n)
        return l && said[i].launch != l->seq;
    if (n < FULL_IN_ALL) {
        said[n].launch = l ? l->seq : 0;
        said[n].image = bad->image;
        said[n].place = bad->place;
        said[n].kind = bad->kind;
        said[n++].site = bad->site;
    }
    return 0;
}

static void check_report(const struct mt_cpu_bad *bad)
{
    struct check_where w;
    pthread_mutex_lock(&lock);
    struct bad_access *p = check_place(bad);
    if (p && ++p->count <= FULL_PER_PLACE && printed < FULL_IN_ALL && !check_is_said(bad)) {
        printed++;
        check_look(bad, &w);
        if (bad->words)
            check_print_words(bad);
        else
            check_print(bad, w.near);
    }
    pthread_mutex_unlock(&lock);
}

/* What companions call it: `why` for readers before `kind`. */
static const char *const check_kinds[] = {
#define FINDING(id, word, level, group, rule) [MT_FINDING_OF_##id] = word,
#include "format/kinds.def"
#undef FINDING
};
static const char *const check_whys[MT_FINDING_KINDS] = {
    [MT_FINDING_OF_BOUNDS] = "illegal", [MT_FINDING_OF_MISALIGNED] = "misaligned",
    [MT_FINDING_OF_MASK] = "mask",      [MT_FINDING_OF_BARRIER] = "barrier",
    [MT_FINDING_OF_STACK] = "stack",    [MT_FINDING_OF_HEAP] = "heap",
};

static enum mt_finding_kind check_kind(const struct bad_access *p)
{
    int freed = p->first.kind == MT_FINDING_OF_BOUNDS && p->where.side && !strcmp(p->where.side, "freed");
    return freed ? MT_FINDING_OF_FREED : p->first.kind;
}

static void sum_up(const struct bad_access *p)
{
    const struct mt_image_site *s = site_of(&p->first);
    const struct mt_launch_line *l = line_of(p->launch);
    int access = !p->first.words;
    struct mt_check_line c = {
        .kernel = p->launch->kernel->pretty,
        .why = check_whys[p->first.kind],
        .kind = check_kinds[check_kind(p)],
        .near = p->where.near,
        .side = p->where.side,
        .alloc = (uint64_t)p->where.alloc,
        .distance = p->where.distance,
        .launch = l ? l->seq : 0,
        .site = (uint64_t)p->first.image->site_base + p->first.site,
        .file = access ? s->file : p->launch->kernel->file,
        .line = access ? s->line : p->launch->kernel->line,
        .access = access,
        .op = mt_op_text(p->first.type),
        .size = p->first.bytes,
        .address = p->first.address,
        .count = p->count,
    };
    memcpy(c.cta, p->first.cta, sizeof c.cta);
    memcpy(c.thread, p->first.thread, sizeof c.thread);
    mt_event_check(&c);
    if (p->count > FULL_PER_PLACE && access)
        mt_note_once("check: kernel %s: %s:%u: %llu bad accesses in all",
                     mt_short((const char *)c.kernel).text, base_name(s->file), s->line,
                     (unsigned long long)p->count);
    else if (p->count > FULL_PER_PLACE)
        mt_note_once("check: kernel %s: %s: %llu in all", mt_short((const char *)c.kernel).text, c.why,
                     (unsigned long long)p->count);
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
        n += now->first.words ? 0 : now->count;
        sum_up(now);
        *p = now->next;
        free(now);
    }
    pthread_mutex_unlock(&lock);
    if (n) { /* the program may crash later */
        mt_trace_needed();
        mt_trace_flush(1);
    }
    return n;
}

void mt_check_start(void)
{
    const struct mt_options *o = mt_options();
    mt_cpu_set_describe(describe_fault);
    if (o->check || mt_devices() > 1)
        mt_cpu_set_checker(&(struct mt_cpu_checker){.generation = &mt_heap_generation,
                                                    .find = o->check ? check_find : check_find_peers,
                                                    .report = check_report,
                                                    .end = check_end,
                                                    .stop = o->check != MT_CHECK_ON,
                                                    .accesses_only = !o->check});
}
