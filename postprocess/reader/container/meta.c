/* Meta lines of a container: through the companion's parser into tables that the reader hands out. */
#include "container.h"
#include "memtrace/grow.h"

enum { BLOCK = 1024 }; /* sites never move: callers keep pointers */

int mt_meta_open(struct mt_host_meta *m, const char *name)
{
    memset(m, 0, sizeof *m);
    m->companion = mt_companion_new(name);
    return m->companion ? 0 : -1;
}

static enum mt_host_op op_of(const char *text)
{
    static const struct {
        const char *text;
        enum mt_host_op op;
    } ops[] = {
#define MT_HOST_OP(name, code, reads, writes, text) {text, MT_HOST_##name},
#include "memtrace/container.def"
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(text, ops[i].text) == 0)
            return ops[i].op;
    return MT_HOST_UNKNOWN;
}

/* Where the site's row is, made when new. NULL: no memory. */
static struct mt_host_site_info *meta_row(struct mt_host_meta *m, uint32_t site)
{
    uint64_t known = mt_hash_find(&m->sites, site);
    if (known)
        return &m->blocks[(known - 1) / BLOCK][(known - 1) % BLOCK];
    if (m->nsites == m->nblocks * BLOCK) {
        if (mt_grow(&m->blocks, &m->block_room, m->nblocks + 1, sizeof *m->blocks) != 0 ||
            !(m->blocks[m->nblocks] = malloc(BLOCK * sizeof **m->blocks)))
            return NULL;
        m->nblocks++;
    }
    if (mt_hash_put(&m->sites, site, m->nsites + 1) != 0)
        return NULL;
    m->nsites++;
    return &m->blocks[(m->nsites - 1) / BLOCK][(m->nsites - 1) % BLOCK];
}

static int take_site(struct mt_host_meta *m, const struct mt_site_event *e)
{
    if (e->id < 4 || e->id > UINT32_MAX)
        return 0; /* no site that a record could name */
    struct mt_host_site_info *s = meta_row(m, (uint32_t)e->id);
    if (!s)
        return -1;
    *s = (struct mt_host_site_info){.site = (uint32_t)e->id,
                                    .op = op_of(e->op),
                                    .size = e->size > UINT32_MAX ? 0 : (uint32_t)e->size,
                                    .line = (uint32_t)e->line,
                                    .column = (uint32_t)e->column,
                                    .ip = e->ip,
                                    .file = e->file,
                                    .function = e->function,
                                    .module = e->module,
                                    .variable = e->var,
                                    .text = e->text,
                                    .reads = e->reads,
                                    .writes = e->writes};
    return 0;
}

int mt_meta_bound(struct mt_meta_bound *b, const char *name, uint64_t offset, const struct mt_mtc_chunk *head,
                  struct mt_error *err)
{
    uint64_t stored = b->stored + sizeof *head + head->stored_bytes;
    if (head->plain_bytes <= MT_MTC_MAX_PLAIN && /* else it is refused for that */
        b->plain + head->plain_bytes > MT_MTC_FREE_LINES + MT_MTC_META_RATIO * stored)
        return mt_error_set(err, MT_E_CORRUPT, 0, offset, name,
                            "%llu bytes stand for %llu bytes of lines, more than %d times as many: the meta "
                            "chunk is skipped; stored without compression it would be read",
                            (unsigned long long)head->stored_bytes, (unsigned long long)head->plain_bytes,
                            MT_MTC_META_RATIO);
    b->plain += head->plain_bytes;
    b->stored = stored;
    return 0;
}

int mt_meta_add(struct mt_host_meta *m, const char *text, size_t bytes, uint64_t offset)
{
    struct mt_companion *c = m->companion;
    if (m->lines && m->lines(m->lines_arg, text, bytes) != 0)
        return -1;
    int rc = mt_companion_add(c, text, bytes, offset);
    for (; rc == 0 && m->taken < c->nsites; m->taken++)
        rc = take_site(m, &c->sites[m->taken]);
    return rc;
}

void mt_meta_sort(struct mt_host_meta *m)
{
    mt_companion_sort(m->companion);
}

const struct mt_host_site_info *mt_meta_site(const struct mt_host_meta *m, uint32_t site)
{
    uint64_t at = mt_hash_find(&m->sites, site);
    return at ? &m->blocks[(at - 1) / BLOCK][(at - 1) % BLOCK] : NULL;
}

void mt_meta_free(struct mt_host_meta *m)
{
    for (size_t i = 0; i < m->nblocks; i++)
        free(m->blocks[i]);
    free(m->blocks);
    mt_hash_free(&m->sites);
    mt_companion_free(m->companion);
    memset(m, 0, sizeof *m);
}
