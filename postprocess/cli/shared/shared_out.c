/* What mt-shared found, as tables for people and as JSON. */
#include "analysis/base/sites.h"
#include "output/json.h"
#include "output/table.h"
#include "shared.h"
#include "memtrace/record.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};
static const char *const kinds[] = {
    [MT_HAZARD_RAW] = "RAW", [MT_HAZARD_WAR] = "WAR", [MT_HAZARD_WAW] = "WAW"};

/* Cells of all launches that have the same kernel, place and type. */
struct sum {
    struct mt_bank_cell cell;
    const char *kernel;
    const struct mt_site_event *site;
    uint64_t launches;
};

static int sum_place(const struct mt_site_event *a, const struct mt_site_event *b)
{
    if (!a || !b)
        return !a - !b;
    int d = strcmp(a->file, b->file);
    d = d ? d : (a->line > b->line) - (a->line < b->line);
    d = d ? d : (a->column > b->column) - (a->column < b->column);
    return d ? d : strcmp(a->var, b->var);
}

static int sum_order(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    int d = strcmp(x->kernel, y->kernel);
    d = d ? d : sum_place(x->site, y->site);
    d = d ? d : (x->cell.type > y->cell.type) - (x->cell.type < y->cell.type);
    return d ? d : (x->cell.launch > y->cell.launch) - (x->cell.launch < y->cell.launch);
}

/* NULL: no memory. */
static struct sum *shared_sums(const struct mt_shared *x, size_t *count)
{
    const struct mt_banks *b = &x->banks;
    struct sum *s = malloc((b->count + 1) * sizeof *s);
    size_t n = 0;
    for (size_t i = 0; s && i < b->count; i++)
        s[i] = (struct sum){.cell = b->cells[i],
                            .kernel = x->launches[b->cells[i].launch].kernel,
                            .site = mt_shared_site(x, b->cells[i].input, b->cells[i].site)};
    if (!s)
        return NULL;
    qsort(s, b->count, sizeof *s, sum_order);
    for (size_t i = 0; i < b->count; i++) {
        struct mt_bank_cell *to = n ? &s[n - 1].cell : NULL, *from = &s[i].cell;
        if (!n || strcmp(s[n - 1].kernel, s[i].kernel) || sum_place(s[n - 1].site, s[i].site) ||
            to->type != from->type) {
            s[n] = s[i];
            s[n++].launches = 1;
            continue;
        }
        s[n - 1].launches += to->launch != from->launch;
        to->launch = from->launch;
        to->requests += from->requests;
        to->accesses += from->accesses;
        to->bytes += from->bytes;
        to->wavefronts += from->wavefronts;
        to->least += from->least;
        to->worst = from->worst > to->worst ? from->worst : to->worst;
    }
    *count = n;
    return s;
}

/* "file:line" without folders, after a word on what is there, or "". */
static void put_place(struct mt_table *t, const char *what, const struct mt_site_event *s)
{
    if (s && *s->file)
        mt_table_say(t, "%s%s%s:%" PRIu64, what, *what ? " " : "", mt_place_short(s->file), s->line);
    else
        mt_table_say(t, "%s%s?", what, *what ? " " : "");
}

/* "transpose(float*, int)::tile" is said as "tile": the kernel stands beside it. */
static const char *short_variable(const struct mt_site_event *s)
{
    const char *v = s ? s->var : "", *at;
    while ((at = strstr(v, "::")))
        v = at + 2;
    return v;
}

static int banks_text(FILE *f, const struct mt_shared *x, const struct sum *s, size_t n)
{
    struct mt_table t;
    mt_table_init(&t,
                  "Bank conflicts of shared memory: wavefronts beyond what the accesses would take without",
                  "line|variable|kernel|type|>requests|>wavefronts|>conflicts|>a request|>worst");
    for (size_t i = 0; i < n; i++) {
        const struct mt_bank_cell *c = &s[i].cell;
        if (mt_rec_space(c->type) != MT_IN_SHARED)
            continue;
        mt_table_row(&t, (c->wavefronts - c->least) << 1 | (c->wavefronts > 0));
        put_place(&t, "", s[i].site);
        mt_table_text(&t, short_variable(s[i].site));
        mt_table_kernel(&t, s[i].kernel);
        mt_table_text(&t, types[c->type & 3]);
        mt_table_u64(&t, c->requests);
        mt_table_u64(&t, c->wavefronts);
        mt_table_u64(&t, c->wavefronts - c->least);
        mt_table_say(&t, "%.2f", (double)c->wavefronts / (double)c->requests);
        mt_table_say(&t, "%" PRIu32 "-way", c->worst);
    }
    return mt_table_print(&t, f, x->top);
}

/* Hazards of copies of the same code (unrolled loops) are one row. */
struct hazard_row {
    struct mt_hazard h;
    const struct mt_site_event *side[2];
};

static int hazard_lines(const struct mt_site_event *a, const struct mt_site_event *b)
{
    if (!a || !b)
        return !a - !b;
    int d = strcmp(a->file, b->file);
    return d ? d : (a->line > b->line) - (a->line < b->line);
}

static int hazard_order(const void *a, const void *b)
{
    const struct hazard_row *x = a, *y = b;
    int d = strcmp(x->h.kernel, y->h.kernel);
    for (int i = 0; i < 2 && !d; i++)
        d = hazard_lines(x->side[i], y->side[i]);
    for (int i = 0; i < 2 && !d; i++)
        d = (x->h.type[i] > y->h.type[i]) - (x->h.type[i] < y->h.type[i]);
    d = d ? d : x->h.kind - y->h.kind;
    return d ? d : x->h.within - y->h.within;
}

/* Puts rows that are alike together; returns how many are left. */
static size_t hazards_join(struct hazard_row *rows, size_t count)
{
    size_t n = 0;
    qsort(rows, count, sizeof *rows, hazard_order);
    for (size_t i = 0; i < count; i++) {
        struct mt_hazard *to = n ? &rows[n - 1].h : NULL;
        if (!n || hazard_order(&rows[n - 1], &rows[i])) {
            rows[n++] = rows[i];
            continue;
        }
        to->count += rows[i].h.count;
        to->launches = to->launches > rows[i].h.launches ? to->launches : rows[i].h.launches;
    }
    return n;
}

static int hazards_text(FILE *f, const struct mt_shared *x)
{
    struct mt_table t;
    size_t count = x->hazards.count;
    struct hazard_row *rows = malloc((count + 1) * sizeof *rows);
    if (!rows)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const struct mt_hazard *h = &x->hazards.list[i];
        rows[i] = (struct hazard_row){
            *h, {mt_shared_site(x, h->input, h->site[0]), mt_shared_site(x, h->input, h->site[1])}};
    }
    count = hazards_join(rows, count);
    mt_table_init(&t, "Hazards of shared memory: no barrier orders the two accesses",
                  "kind|first|second|kernel|between|>words|>launches|example");
    for (size_t i = 0; i < count; i++) {
        const struct mt_hazard *h = &rows[i].h;
        mt_table_row(&t, h->count);
        mt_table_text(&t, kinds[h->kind]);
        for (int k = 0; k < 2; k++)
            put_place(&t, types[h->type[k]], rows[i].side[k]);
        mt_table_kernel(&t, h->kernel);
        mt_table_text(&t, h->within ? "lanes of a warp" : "warps");
        mt_table_u64(&t, h->count);
        mt_table_u64(&t, h->launches);
        mt_table_say(&t, "CTA %u,%u,%u threads %u, %u at 0x%" PRIx64, (unsigned)(h->cta >> 32),
                     (unsigned)(h->cta >> 16 & 0xffff), (unsigned)(h->cta & 0xffff), h->thread[0],
                     h->thread[1], h->address);
    }
    free(rows);
    return mt_table_print(&t, f, x->top);
}

static int local_text(FILE *f, const struct mt_shared *x, const struct sum *s, size_t n)
{
    struct mt_table t;
    mt_table_init(&t, "Local memory", "line|variable|kernel|type|>requests|>accesses|>bytes");
    for (size_t i = 0; i < n; i++) {
        const struct mt_bank_cell *c = &s[i].cell;
        if (mt_rec_space(c->type) != MT_IN_LOCAL)
            continue;
        mt_table_row(&t, c->bytes);
        put_place(&t, "", s[i].site);
        mt_table_text(&t, short_variable(s[i].site));
        mt_table_kernel(&t, s[i].kernel);
        mt_table_text(&t, types[c->type & 3]);
        mt_table_u64(&t, c->requests);
        mt_table_u64(&t, c->accesses);
        mt_table_u64(&t, c->bytes);
    }
    return mt_table_print(&t, f, x->top);
}

int mt_shared_text(FILE *f, const struct mt_shared *x)
{
    size_t n = 0;
    struct sum *s = shared_sums(x, &n);
    if (!s)
        return -1;
    fprintf(f, "%zu launches%s\n", x->nlaunches,
            x->complete > 0 ? ""
            : x->complete   ? "; not known whether that is all"
                            : "; INCOMPLETE");
    if (x->untraced)
        fprintf(
            f,
            "note: %" PRIu64
            " accesses have no record (mt-cc and mt-run say which when they compile): shared memory may be "
            "among them\n",
            x->untraced);
    if (x->hazards.unjudged)
        fprintf(f,
                "note: %" PRIu64
                " accesses to shared memory are not looked at for hazards: block copies, other "
                "CTAs' memory\n",
                x->hazards.unjudged);
    if (x->hazards.loose)
        fprintf(f,
                "note: threads were %" PRIu64
                " times at barriers in memory of which is not known which one it was, or "
                "whether they waited: hazards may be missing\n",
                x->hazards.loose);
    if (x->hazards.parted)
        fprintf(f,
                "note: %" PRIu64
                " CTAs were under way at a time with too many others: hazards may be missing\n",
                x->hazards.parted);
    int rc = banks_text(f, x, s, n);
    rc = rc ? rc : hazards_text(f, x);
    rc = rc ? rc : local_text(f, x, s, n);
    free(s);
    return rc;
}

/* ---- JSON ---- */

static void json_place(struct mt_json *j, const struct mt_site_event *s)
{
    mt_json_text(j, "file", s ? s->file : "");
    mt_json_u64(j, "line", s ? s->line : 0);
    mt_json_u64(j, "column", s ? s->column : 0);
    mt_json_text(j, "variable", s ? s->var : "");
}

static void json_cells(struct mt_json *j, const struct mt_shared *x, enum mt_access_space space)
{
    for (size_t i = 0; i < x->banks.count; i++) {
        const struct mt_bank_cell *c = &x->banks.cells[i];
        if (mt_rec_space(c->type) != (uint32_t)space)
            continue;
        mt_json_object(j, NULL, 1);
        mt_json_u64(j, "launch", c->launch);
        json_place(j, mt_shared_site(x, c->input, c->site));
        mt_json_text(j, "type", types[c->type & 3]);
        mt_json_u64(j, "requests", c->requests);
        mt_json_u64(j, "accesses", c->accesses);
        mt_json_u64(j, "bytes", c->bytes);
        if (space == MT_IN_SHARED) {
            mt_json_u64(j, "wavefronts", c->wavefronts);
            mt_json_u64(j, "conflicts", c->wavefronts - c->least);
            mt_json_u64(j, "worst", c->worst);
        }
        mt_json_end(j);
    }
}

static void json_hazard(struct mt_json *j, const struct mt_shared *x, const struct mt_hazard *h)
{
    char cta[64];
    mt_json_object(j, NULL, 1);
    mt_json_text(j, "kind", kinds[h->kind]);
    mt_json_text(j, "kernel", h->kernel);
    mt_json_text(j, "between", h->within ? "lanes" : "warps");
    for (int i = 0; i < 2; i++) {
        mt_json_object(j, i ? "second" : "first", 1);
        mt_json_text(j, "type", types[h->type[i]]);
        json_place(j, mt_shared_site(x, h->input, h->site[i]));
        mt_json_u64(j, "thread", h->thread[i]);
        mt_json_end(j);
    }
    mt_json_u64(j, "count", h->count);
    mt_json_u64(j, "launches", h->launches);
    mt_json_u64(j, "launch", h->launch);
    mt_json_text(j, "cta", mt_key_cta(cta, h->cta >> 32, h->cta >> 16 & 0xffff, h->cta & 0xffff));
    mt_json_u64(j, "address", h->address);
    mt_json_end(j);
}

int mt_shared_json(struct mt_json *j, const struct mt_shared *x)
{
    mt_json_object(j, NULL, 0);
    mt_json_known(j, "complete", x->complete);
    mt_json_array(j, "launches", 0);
    for (size_t i = 0; i < x->nlaunches; i++) {
        mt_json_object(j, NULL, 1);
        mt_json_u64(j, "superstep", x->launches[i].superstep);
        mt_json_text(j, "kernel", x->launches[i].kernel);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_array(j, "banks", 0);
    json_cells(j, x, MT_IN_SHARED);
    mt_json_end(j);
    mt_json_array(j, "hazards", 0);
    for (size_t i = 0; i < x->hazards.count; i++)
        json_hazard(j, x, &x->hazards.list[i]);
    mt_json_end(j);
    mt_json_array(j, "local", 0);
    json_cells(j, x, MT_IN_LOCAL);
    mt_json_end(j);
    mt_json_u64(j, "untraced", x->untraced);
    mt_json_u64(j, "unjudged", x->hazards.unjudged);
    mt_json_u64(j, "loose", x->hazards.loose);
    mt_json_u64(j, "parted", x->hazards.parted);
    mt_json_end(j);
    return 0;
}
