/* Shared and local memory as tables for people and as JSON. */
#include "shared_out.h"
#include "summary.h"
#include "analysis/base/sites.h"
#include "memtrace/record.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};

/* ---- rows ---- */

static void onchip_place(struct mt_tuples *w, const struct mt_site_event *s)
{
    char room[MT_TUPLES_FILE];
    const char *words = mt_site_words(s, room, sizeof room);
    mt_tuples_place(w, words ? words : "?");
}

static void onchip_bank(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_onchip_place *p = &x->r->onchip->places[i];
    const struct mt_bank_cell *c = &p->sum;
    mt_tuples_text(w, p->kernel);
    onchip_place(w, p->site);
    mt_tuples_maybe(w, p->site && *p->site->file, p->site ? p->site->column : 0);
    mt_tuples_text(w, mt_onchip_variable(p->site));
    mt_tuples_text(w, mt_rec_space(c->type) == MT_IN_LOCAL ? "local" : "shared");
    mt_tuples_text(w, types[c->type & 3]);
    mt_tuples_numbers(
        w, MT_NUMBERS(c->requests, c->accesses, c->bytes, c->wavefronts, c->least, c->worst, p->launches));
}

int mt_rows_of_banks(struct mt_rowset *x)
{
    x->row = onchip_bank;
    x->n = x->r->onchip->nplaces;
    return 0;
}

static void onchip_hazard(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_onchip_hazard *z = &x->r->onchip->hazards[i];
    const struct mt_hazard *h = &z->h;
    mt_tuples_text(w, h->kernel);
    mt_tuples_text(w, mt_hazard_words[h->kind]);
    for (int k = 0; k < 2; k++) {
        mt_tuples_text(w, types[h->type[k] & 3]);
        onchip_place(w, z->side[k]);
    }
    mt_tuples_text(w, mt_hazard_between_words[h->between]);
    mt_tuples_numbers(w, MT_NUMBERS(h->count, h->launches));
    mt_tuples_cta(w, h->cta);
    mt_tuples_numbers(w, MT_NUMBERS(h->thread[0], h->thread[1], h->address));
}

int mt_rows_of_hazards(struct mt_rowset *x)
{
    x->row = onchip_hazard;
    x->n = x->r->onchip->nhazards;
    return 0;
}

/* ---- text ---- */

/* "file:line" without folders, after a word on what is there, or "". */
static void put_place(struct mt_table *t, const char *what, const struct mt_site_event *s)
{
    char room[1024];
    const char *words = mt_site_words(s, room, sizeof room);
    mt_table_say(t, "%s%s%s", what, *what ? " " : "", words ? mt_location_short(words) : "?");
}

/* A site's place, with its column where the table has two sites on one line. */
static void put_site(struct mt_table *t, const struct mt_onchip_rows *r, const struct mt_site_event *s)
{
    int several = 0;
    for (size_t i = 0; s && i < r->nplaces; i++) {
        const struct mt_site_event *o = r->places[i].site;
        several |= o && o->line == s->line && o->column != s->column && strcmp(o->file, s->file) == 0;
    }
    if (s && *s->file && several)
        mt_table_say(t, "%s:%" PRIu64 ":%" PRIu64, mt_location_short(s->file), s->line, s->column);
    else
        put_place(t, "", s);
}
static int banks_text(FILE *f, const struct mt_shared *x, const struct mt_onchip_rows *r)
{
    struct mt_table t;
    int halves = 0;
    mt_table_init(&t,
                  "Bank conflicts of shared memory: wavefronts beyond what the accesses would take without",
                  "line|variable|kernel|type|>requests|>wavefronts|>conflicts|>a request|>worst");
    for (size_t i = 0; i < r->nplaces; i++) {
        const struct mt_onchip_place *p = &r->places[i];
        const struct mt_bank_cell *c = &p->sum;
        if (mt_rec_space(c->type) != MT_IN_SHARED)
            continue;
        halves |= c->bytes == 8 * c->accesses && c->wavefronts > c->least;
        mt_table_row(&t, (c->wavefronts - c->least) << 1 | (c->wavefronts > 0));
        put_site(&t, r, p->site);
        mt_table_text(&t, mt_onchip_variable(p->site));
        mt_table_kernel(&t, p->kernel);
        mt_table_text(&t, types[c->type & 3]);
        mt_table_u64(&t, c->requests);
        mt_table_u64(&t, c->wavefronts);
        mt_table_u64(&t, c->wavefronts - c->least);
        mt_table_say(&t, "%.2f", (double)c->wavefronts / (double)c->requests);
        mt_table_say(&t, "%" PRIu32 "-way", c->worst);
    }
    int rc = mt_table_print(&t, f, x->top);
    if (halves && rc == 0)
        fprintf(f, "  %s\n", mt_table_halves);
    return rc;
}

static int hazards_text(FILE *f, const struct mt_shared *x, const struct mt_onchip_rows *r)
{
    struct mt_table t;
    mt_table_init(&t, "Hazards of shared memory: no barrier orders the two accesses",
                  "kind|first|second|kernel|between|>words|>launches|example");
    for (size_t i = 0; i < r->nhazards; i++) {
        const struct mt_hazard *h = &r->hazards[i].h;
        mt_table_row(&t, h->count);
        mt_table_text(&t, mt_hazard_words[h->kind]);
        for (int k = 0; k < 2; k++)
            put_place(&t, types[h->type[k]], r->hazards[i].side[k]);
        mt_table_kernel(&t, h->kernel);
        mt_table_text(&t, mt_hazard_between_words[h->between]);
        mt_table_u64(&t, h->count);
        mt_table_u64(&t, h->launches);
        mt_table_say(&t, "CTA %u,%u,%u threads %u, %u at 0x%" PRIx64, (unsigned)(h->cta >> 32),
                     (unsigned)(h->cta >> 16 & 0xffff), (unsigned)(h->cta & 0xffff), h->thread[0],
                     h->thread[1], h->address);
    }
    return mt_table_print(&t, f, x->top);
}

static int local_text(FILE *f, const struct mt_shared *x, const struct mt_onchip_rows *r)
{
    struct mt_table t;
    mt_table_init(&t, "Local memory", "line|variable|kernel|type|>requests|>accesses|>bytes");
    for (size_t i = 0; i < r->nplaces; i++) {
        const struct mt_onchip_place *p = &r->places[i];
        const struct mt_bank_cell *c = &p->sum;
        if (mt_rec_space(c->type) != MT_IN_LOCAL)
            continue;
        mt_table_row(&t, c->bytes);
        put_site(&t, r, p->site);
        mt_table_text(&t, mt_onchip_variable(p->site));
        mt_table_kernel(&t, p->kernel);
        mt_table_text(&t, types[c->type & 3]);
        mt_table_u64(&t, c->requests);
        mt_table_u64(&t, c->accesses);
        mt_table_u64(&t, c->bytes);
    }
    return mt_table_print(&t, f, x->top);
}

void mt_shared_notes(const struct mt_onchip *x, void (*say)(void *arg, const char *note), void *arg)
{
    char note[200];
    if (x->hazards.unjudged) {
        snprintf(note, sizeof note,
                 "%" PRIu64 " accesses to shared memory are not looked at for hazards: block copies, wide "
                 "matrices, other CTAs' memory",
                 x->hazards.unjudged);
        say(arg, note);
    }
    if (x->hazards.loose) {
        snprintf(note, sizeof note,
                 "threads were %" PRIu64
                 " times at barriers in memory of which is not known which one it was, or "
                 "whether they waited: hazards may be missing",
                 x->hazards.loose);
        say(arg, note);
    }
    if (x->hazards.parted) {
        snprintf(note, sizeof note,
                 "%" PRIu64 " CTAs were under way at a time with too many others: hazards may be missing",
                 x->hazards.parted);
        say(arg, note);
    }
}

static void shared_note(void *f, const char *note)
{
    fprintf(f, "note: %s\n", note);
}

int mt_shared_text(FILE *f, const struct mt_shared *x)
{
    mt_shared_notes(x->found, shared_note, f);
    int rc = banks_text(f, x, x->rows);
    rc = rc ? rc : hazards_text(f, x, x->rows);
    return rc ? rc : local_text(f, x, x->rows);
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
    for (size_t i = 0; i < x->found->banks.count; i++) {
        const struct mt_bank_cell *c = &x->found->banks.cells[i];
        if (mt_rec_space(c->type) != (uint32_t)space)
            continue;
        mt_json_object(j, NULL, 1);
        mt_json_u64(j, "launch", c->launch);
        json_place(j, mt_onchip_site(x->source, c->input, c->site));
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
    static const char *const keys[] = {
        [MT_HAZARD_IN_CTA] = "warps", [MT_HAZARD_IN_WARP] = "lanes", [MT_HAZARD_THREAD] = "thread"};
    char cta[64];
    mt_json_object(j, NULL, 1);
    mt_json_text(j, "kind", mt_hazard_words[h->kind]);
    mt_json_text(j, "kernel", h->kernel);
    mt_json_text(j, "between", keys[h->between]);
    for (int i = 0; i < 2; i++) {
        mt_json_object(j, i ? "second" : "first", 1);
        mt_json_text(j, "type", types[h->type[i]]);
        json_place(j, mt_onchip_site(x->source, h->input, h->site[i]));
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

void mt_shared_json(struct mt_json *j, const struct mt_shared *x)
{
    mt_json_object(j, "shared", 0);
    mt_json_array(j, "launches", 0);
    for (size_t i = 0; i < x->found->nlaunches; i++) {
        mt_json_object(j, NULL, 1);
        mt_json_u64(j, "superstep", x->found->launches[i].superstep);
        mt_json_text(j, "kernel", x->found->launches[i].kernel);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_array(j, "banks", 0);
    json_cells(j, x, MT_IN_SHARED);
    mt_json_end(j);
    mt_json_array(j, "hazards", 0);
    for (size_t i = 0; i < x->found->hazards.count; i++)
        json_hazard(j, x, &x->found->hazards.list[i]);
    mt_json_end(j);
    mt_json_array(j, "local", 0);
    json_cells(j, x, MT_IN_LOCAL);
    mt_json_end(j);
    mt_json_u64(j, "untraced", x->found->untraced);
    mt_json_u64(j, "unjudged", x->found->hazards.unjudged);
    mt_json_u64(j, "loose", x->found->hazards.loose);
    mt_json_u64(j, "parted", x->found->hazards.parted);
    mt_json_end(j);
}

/* ---- sentences ---- */

const char mt_onchip_sentences[] =
    "WITH b AS (SELECT *, rowid AS id, wavefronts - least AS conflicts FROM banks WHERE memory = 'shared'), "
    "t AS (SELECT sum(conflicts) AS lost, sum(wavefronts) AS everything FROM b) "
    "SELECT 'banks', 'banks', 130, lost > 0.1 * everything, printf('%s of the wavefronts of shared memory "
    "are bank conflicts, most of them of the %s at %s (%s-way).', share(lost, everything), type, iif(file IS "
    "NULL, '?', mark(place(file, line), coalesce(file || ':' || line, file))), worst) "
    "FROM b, t WHERE lost ORDER BY conflicts DESC, id LIMIT 1; "
    "SELECT 'hazards', 'hazards', 20, 1, printf('%s in shared memory (no barrier orders two threads of a "
    "CTA), the largest in %s: %s before %s on %s.', many(count(*) OVER (), 'hazard', 'hazards'), "
    "mark(kernel(kernel), kernel), "
    "mark(a_type || ' ' || place(a_file, a_line), a_file || ':' || a_line), mark(b_type || ' ' || "
    "place(b_file, b_line), b_file || ':' || b_line), many(words, 'word', 'words')) "
    "FROM hazards ORDER BY words DESC, rowid LIMIT 1";
