/* The site table, read without locks and written under one; and the locations of call sites. */
#define _GNU_SOURCE

#include "platform.h"
#include "memtrace/hash.h"
#include "state.h"

#include <string.h>

/* ---- Interned strings, which live as long as the trace ---- */

#define SLAB (1u << 20)
#define LONGEST 65535u

static char *slab;
static size_t left;
static const char **table;
static uint64_t room, count;

static uint64_t intern_hash(const char *s, size_t n)
{
    uint64_t h = mt_hash_bytes(MT_HASH_BEGIN, s, n);
    return h ^ h >> 32;
}

static const char **intern_find(const char **t, uint64_t size, const char *s, size_t n)
{
    for (uint64_t i = intern_hash(s, n);; i++) {
        const char **p = &t[i & (size - 1)];
        if (!*p || (!strncmp(*p, s, n) && !(*p)[n]))
            return p;
    }
}

static int intern_grow(void)
{
    uint64_t size = room ? 2 * room : 8192;
    const char **t = mt_plat_map(size * sizeof *t);
    if (!t)
        return -1;
    for (uint64_t i = 0; i < room; i++)
        if (table[i])
            *intern_find(t, size, table[i], strlen(table[i])) = table[i];
    mt_plat_unmap(table, room * sizeof *table);
    table = t;
    room = size;
    return 0;
}

/* Returns the one copy of `s`; "" for NULL, "" or without memory. Cuts strings beyond 64 KiB. */
static const char *sites_intern(const char *s)
{
    if (!s || !*s)
        return "";
    size_t n = strnlen(s, LONGEST);
    if (4 * count >= 3 * room && intern_grow())
        return "";
    const char **p = intern_find(table, room, s, n);
    if (*p)
        return *p;
    if (n + 1 > left) {
        char *new = mt_plat_map(SLAB);
        if (!new)
            return "";
        slab = new;
        left = SLAB;
    }
    memcpy(slab, s, n); /* pages are zeroed */
    *p = slab;
    slab += n + 1;
    left -= n + 1;
    count++;
    return *p;
}

#define CHUNK 2048u /* number of instructions */
#define CHUNKS 131072u

static struct mt_spin lock; /* protects numbers, twins, interned strings */
static struct mt_core_kept_site **chunk;
static uint32_t next = 1; /* next instruction number; 0 is unused */

/* ---- table ---- */

/* Reserves `count` consecutive instructions. Returns the first number, 0 without memory. Called with the
 * lock. */
static uint32_t sites_reserve(uint32_t count)
{
    if (!chunk && !(chunk = mt_plat_map(CHUNKS * sizeof *chunk)))
        return 0;
    if (!count || count > (uint64_t)CHUNKS * CHUNK - next)
        return 0;
    for (uint32_t c = next / CHUNK; c <= (next + count - 1) / CHUNK; c++)
        if (!chunk[c]) {
            struct mt_core_kept_site *s = mt_plat_map(CHUNK * sizeof *s);
            if (!s)
                return 0;
            __atomic_store_n(&chunk[c], s, __ATOMIC_RELEASE);
        }
    uint32_t first = next;
    __atomic_store_n(&next, next + count, __ATOMIC_RELEASE);
    return first;
}

struct mt_core_kept_site *mt_site_of(uint32_t site)
{
    uint32_t i = site >> 2;
    if (!i || i >= __atomic_load_n(&next, __ATOMIC_ACQUIRE))
        return NULL;
    struct mt_core_kept_site *s = &__atomic_load_n(&chunk[i / CHUNK], __ATOMIC_ACQUIRE)[i % CHUNK];
    return __atomic_load_n(&s->defined, __ATOMIC_ACQUIRE) ? s : NULL;
}

uint32_t mt_site_instructions(void)
{
    return __atomic_load_n(&next, __ATOMIC_ACQUIRE);
}

/* ---- definition ---- */

static const char *const op_names[] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = text,
#include "memtrace/container.def"
};

static void sites_line(uint32_t site, const struct mt_core_kept_site *s, unsigned operand,
                       const char *variable)
{
    int whole = !operand && *s->text;
    mt_core_sink_line(MT_LINE_site, &(struct mt_site_line){.host = 1,
                                                           .id = site + operand,
                                                           .op = op_names[s->op[operand]],
                                                           .size = s->size[operand],
                                                           .strong = s->strong >> operand & 1,
                                                           .runtime = s->runtime,
                                                           .ip = s->ip,
                                                           .file = s->file,
                                                           .line = s->line,
                                                           .column = s->column,
                                                           .function = s->function,
                                                           .module = s->module,
                                                           .var = variable,
                                                           .text = whole ? s->text : NULL,
                                                           .reads = s->reads,
                                                           .writes = s->writes});
}

/* Asks the engine for the location if the site itself has none. */
static void core_sites_location(struct mt_core_site *s, struct mt_core_location *p)
{
    if (s->line || (s->file && *s->file) || !s->ip || !mt_g.e->locate || mt_g.e->locate(s->ip, p))
        return;
    s->line = p->line;
    s->column = p->column;
    s->file = p->file;
    if (!s->function || !*s->function)
        s->function = p->function;
    if (!s->module || !*s->module)
        s->module = p->module;
}

static void core_sites_define(uint32_t site, const struct mt_core_site *operands, unsigned count)
{
    struct mt_core_location p = {.line = 0};
    struct mt_core_site first = operands[0];
    uint32_t i = site >> 2;
    if (!i || i >= mt_site_instructions())
        return;
    core_sites_location(&first, &p);
    mt_spin_lock(&lock);
    struct mt_core_kept_site *s = &chunk[i / CHUNK][i % CHUNK];
    s->ip = first.ip;
    s->line = first.line;
    s->column = first.column;
    s->file = sites_intern(first.file);
    s->function = sites_intern(first.function);
    s->module = sites_intern(first.module);
    s->text = sites_intern(first.text);
    s->reads = sites_intern(first.reads);
    s->writes = sites_intern(first.writes);
    s->strong = 0;
    s->runtime = first.runtime != 0;
    for (unsigned k = 0; k < count; k++) {
        s->strong |= (uint8_t)(operands[k].strong << k);
        s->op[k] = (uint8_t)operands[k].op;
        s->size[k] = operands[k].size;
    }
    s->operands = (uint8_t)count;
    mt_spin_unlock(&lock);
    for (unsigned k = 0; k < count; k++)
        sites_line(site, s, k, operands[k].variable);
    __atomic_store_n(&s->defined, 1, __ATOMIC_RELEASE);
}

uint32_t mt_core_sites_reserve(uint32_t instructions)
{
    if (!mt_on())
        return 0;
    mt_spin_lock(&lock);
    uint32_t first = sites_reserve(instructions);
    mt_spin_unlock(&lock);
    return first << 2;
}

uint32_t mt_core_sites(const struct mt_core_site *operands, unsigned count)
{
    uint32_t site = count && count <= 4 ? mt_core_sites_reserve(1) : 0;
    if (site)
        core_sites_define(site, operands, count);
    return site;
}

/* Defines one operand of an instruction: the first one carries the shared fields. */
void mt_core_site_define(uint32_t site, const struct mt_core_site *s)
{
    uint32_t operand = MT_HOST_OPERAND(site);
    if (!mt_on())
        return;
    if (!operand) {
        core_sites_define(site, s, 1);
        return;
    }
    struct mt_core_kept_site *m = mt_site_of(site);
    if (!m)
        return;
    m->op[operand] = (uint8_t)s->op;
    m->size[operand] = s->size;
    if (operand >= m->operands)
        m->operands = (uint8_t)(operand + 1);
    sites_line(site - operand, m, operand, s->variable);
}

/* ---- twins: sites of failed compare-and-swaps ---- */

uint32_t mt_site_twin(uint32_t site)
{
    struct mt_core_kept_site *s = mt_site_of(site);
    if (!s)
        return site;
    uint32_t twin = __atomic_load_n(&s->twin, __ATOMIC_ACQUIRE);
    if (!twin) {
        struct mt_core_site operand[4];
        for (unsigned k = 0; k < s->operands; k++)
            operand[k] = (struct mt_core_site){.ip = s->ip,
                                               .op = s->op[k] == MT_HOST_CAS ? MT_HOST_CAS_FAILED
                                                                             : (enum mt_host_op)s->op[k],
                                               .size = s->size[k],
                                               .line = s->line,
                                               .column = s->column,
                                               .file = s->file,
                                               .function = s->function,
                                               .module = s->module,
                                               .text = s->text,
                                               .reads = s->reads,
                                               .writes = s->writes};
        twin = mt_core_sites_reserve(1);
        if (!twin)
            return site;
        core_sites_define(twin, operand, s->operands);
        __atomic_store_n(&s->twin, twin, __ATOMIC_RELEASE); /* two threads may make a twin each, which is
                                                             * harmless */
    }
    return twin + MT_HOST_OPERAND(site);
}

/* ---- locations of call sites ---- */

static struct mt_spin places_lock;
static struct mt_code_location *places;
static uint64_t places_room, places_count;

static struct mt_code_location *places_find(struct mt_code_location *table, uint64_t room, uint64_t ip)
{
    for (uint64_t i = mt_hash_number(ip) >> 32;; i++) {
        struct mt_code_location *p = &table[i & (room - 1)];
        if (!p->ip || p->ip == ip)
            return p;
    }
}

static int places_grow(void)
{
    uint64_t room = places_room ? 2 * places_room : 4096;
    struct mt_code_location *table = mt_plat_map(room * sizeof *table);
    if (!table)
        return -1;
    for (uint64_t i = 0; i < places_room; i++)
        if (places[i].ip)
            *places_find(table, room, places[i].ip) = places[i];
    mt_plat_unmap(places, places_room * sizeof *places);
    places = table;
    places_room = room;
    return 0;
}

static void places_add(const struct mt_code_location *new)
{
    mt_spin_lock(&places_lock);
    if (4 * places_count < 3 * places_room || !places_grow()) {
        struct mt_code_location *p = places_find(places, places_room, new->ip);
        places_count += !p->ip;
        *p = *new;
    }
    mt_spin_unlock(&places_lock);
}

void mt_site_locate(uint64_t ip, struct mt_code_location *out)
{
    struct mt_core_location p;
    *out = (struct mt_code_location){.file = "", .function = "", .module = ""};
    if (!ip)
        return;
    mt_spin_lock(&places_lock);
    struct mt_code_location *known = places_room ? places_find(places, places_room, ip) : NULL;
    if (known && known->ip)
        *out = *known;
    mt_spin_unlock(&places_lock);
    if (out->ip)
        return;
    out->ip = ip;
    memset(&p, 0, sizeof p);
    if (mt_g.e->locate && !mt_g.e->locate(ip, &p)) {
        mt_spin_lock(&lock);
        *out = (struct mt_code_location){
            ip, sites_intern(p.file), sites_intern(p.function), sites_intern(p.module), p.line, p.column, 0};
        mt_spin_unlock(&lock);
    }
    places_add(out);
}

/* ---- sites by a key ---- */

enum { KEYED_FIRST = 512, KEYED_TABLES = 16, KEYED_TRIES = 16 };

struct sites_keyed {
    uint64_t key;
    uint32_t site; /* site, with bit 0 set */
};

/* Returns table i with room for KEYED_FIRST << i, or NULL without memory. Tables stay in place, so no lock
 * is needed. */
static struct sites_keyed *sites_table(unsigned i)
{
    static struct sites_keyed *table[KEYED_TABLES];
    struct sites_keyed *was = NULL, *now = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);
    size_t bytes = ((size_t)KEYED_FIRST << i) * sizeof *now;
    if (now || !(now = mt_plat_map(bytes)))
        return now;
    if (__atomic_compare_exchange_n(&table[i], &was, now, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return now;
    mt_plat_unmap(now, bytes);
    return was;
}

/* Returns the place of a key: one that has it, or a free one that it takes (*mine). */
static struct sites_keyed *sites_keyed(uint64_t key, int *mine)
{
    uint64_t h = mt_hash_number(key) >> 32;
    struct sites_keyed *table;
    for (unsigned i = 0; i < KEYED_TABLES && (table = sites_table(i)); i++)
        for (uint64_t k = 0; k < KEYED_TRIES; k++) {
            struct sites_keyed *p = &table[(h + k) & (((uint64_t)KEYED_FIRST << i) - 1)];
            uint64_t was = 0;
            *mine = __atomic_compare_exchange_n(&p->key, &was, key, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
            if (*mine || was == key)
                return p;
        }
    return NULL;
}

uint32_t mt_core_site_of(uint64_t key, const struct mt_core_site *s)
{
    int mine = 0;
    uint32_t site;
    struct sites_keyed *p = sites_keyed(key, &mine);
    if (!p)
        return 0;
    if (mine) {
        site = mt_core_sites(s, 1);
        __atomic_store_n(&p->site, site + 1, __ATOMIC_RELEASE);
        return site;
    }
    for (unsigned step = 0; !(site = __atomic_load_n(&p->site, __ATOMIC_ACQUIRE));)
        mt_plat_pause(step++); /* another thread is making it */
    return site - 1;
}
