/* Results of shared and local memory. */
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

MT_ROWS(banks, onchip_bank, x->r->onchip ? x->r->onchip->nplaces : 0)

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
    mt_tuples_cta(w, h->cta[1]);
    mt_tuples_numbers(w, MT_NUMBERS(h->thread[0], h->thread[1], h->address));
}

MT_ROWS(hazards, onchip_hazard, x->r->onchip ? x->r->onchip->nhazards : 0)

void mt_shared_notes(const struct mt_onchip *x, void (*say)(void *arg, const char *note), void *arg)
{
    char note[200];
    if (x->banks.ungrouped) {
        snprintf(note, sizeof note,
                 "%" PRIu64 " accesses to shared memory are not grouped into requests (their kernels ran a "
                 "thread at a time): their bank conflicts are not known",
                 x->banks.ungrouped);
        say(arg, note);
    }
    if (x->hazards.unjudged) {
        snprintf(note, sizeof note,
                 "%" PRIu64 " accesses to shared memory are not checked for hazards: bulk copies, wide "
                 "matrices, memory of other CTAs",
                 x->hazards.unjudged);
        say(arg, note);
    }
    if (x->hazards.loose) {
        snprintf(note, sizeof note,
                 "%" PRIu64
                 " times it is not known at which barrier in memory a thread was, or whether it waited: "
                 "hazards may be missing",
                 x->hazards.loose);
        say(arg, note);
    }
    if (x->hazards.parted) {
        snprintf(note, sizeof note,
                 "%" PRIu64
                 " CTAs were not followed to their end, as too many ran at once: hazards may be missing",
                 x->hazards.parted);
        say(arg, note);
    }
}

static void onchip_note(void *f, const char *note)
{
    fprintf(f, "note: %s\n", note);
}

/* Returns 1 if bank conflicts come from lanes that access 8 bytes. */
static int onchip_halves(const struct mt_onchip_rows *r)
{
    for (size_t i = 0; i < r->nplaces; i++) {
        const struct mt_bank_cell *c = &r->places[i].sum;
        if (mt_rec_space(c->type) == MT_IN_SHARED && c->bytes == 8 * c->accesses && c->wavefronts > c->least)
            return 1;
    }
    return 0;
}

/* Name of a site. The place within the line is shown only if the table has two sites on one line. */
#define SITE                                                                                                 \
    "place(file, line) || iif(EXISTS (SELECT 1 FROM banks o WHERE o.line = b.line AND o.file = b.file AND "  \
    "o.column != b.column), ':' || column, '') AS line, variable, kernel(kernel) AS kernel, type, "          \
    "iif(requests, requests, 'not grouped') AS '>requests', "

int mt_shared_text(struct mt_text *t, const struct mt_onchip *x)
{
    mt_shared_notes(x, onchip_note, t->f);
    int rc = mt_text_table(
        t,
        "Bank conflicts of shared memory: wavefronts beyond those that the accesses need without conflicts",
        "SELECT " SITE "iif(requests, wavefronts, '') AS '>wavefronts', iif(requests, wavefronts - least, "
        "'') AS '>conflicts', iif(requests, fixed("
        "1.0 * wavefronts / requests, 2), '') AS '>a request', iif(requests, worst || '-way', '') AS "
        "'>worst' FROM banks b WHERE memory = "
        "'shared' "
        "ORDER BY wavefronts - least DESC, wavefronts > 0 DESC, b.rowid");
    if (rc == 0 && onchip_halves(&x->rows))
        fprintf(t->f, "  %s\n", mt_table_halves);
    if (rc == 0)
        rc = mt_text_table(
            t, "Hazards of shared memory: no barrier between the two accesses",
            "SELECT kind, a_type || ' ' || place(a_file, a_line) AS first, b_type || ' ' || place(b_file, "
            "b_line) AS second, kernel(kernel) AS kernel, who AS 'between', words AS '>words', launches AS "
            "'>launches', printf('CTA %d,%d,%d threads %d, %d at 0x%x', x, y, z, a_thread, b_thread, "
            "address) AS example FROM hazards h ORDER BY words DESC, h.rowid");
    return rc ? rc
              : mt_text_table(t, "Local memory",
                              "SELECT " SITE "accesses AS '>accesses', bytes AS '>bytes' FROM banks b WHERE "
                              "memory = 'local' ORDER BY bytes DESC, b.rowid");
}

static void json_place(struct mt_json *j, const struct mt_site_event *s)
{
    mt_json_text(j, "file", s ? s->file : "");
    mt_json_u64(j, "line", s ? s->line : 0);
    mt_json_u64(j, "column", s ? s->column : 0);
    mt_json_text(j, "variable", s ? s->var : "");
}

static void json_cells(struct mt_json *j, const struct mt_onchip *x, enum mt_access_space space)
{
    for (size_t i = 0; i < x->banks.count; i++) {
        const struct mt_bank_cell *c = &x->banks.cells[i];
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

static void json_hazard(struct mt_json *j, const struct mt_onchip *x, const struct mt_hazard *h)
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
    mt_json_text(j, "cta", mt_key_cta(cta, h->cta[1] >> 32, h->cta[1] >> 16 & 0xffff, h->cta[1] & 0xffff));
    mt_json_u64(j, "address", h->address);
    mt_json_end(j);
}

void mt_shared_json(struct mt_json *j, const struct mt_onchip *x)
{
    mt_json_object(j, "shared", 0);
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
}

const char mt_onchip_sentences[] =
    "WITH b AS (SELECT *, rowid AS id, wavefronts - least AS conflicts FROM banks WHERE memory = 'shared'), "
    "t AS (SELECT sum(conflicts) AS lost, sum(wavefronts) AS everything FROM b) "
    "SELECT 'banks', 'banks', 130, lost > 0.1 * everything, printf('Bank conflicts cause %s of the "
    "wavefronts of shared memory, most at the %s at %s (%s-way).', share(lost, everything), type, iif(file "
    "IS "
    "NULL, '?', mark(place(file, line), coalesce(file || ':' || line, file))), worst) "
    "FROM b, t WHERE lost ORDER BY conflicts DESC, id LIMIT 1; "
    "SELECT 'hazards', 'hazards', 20, 1, printf('%s in shared memory (no barrier between accesses of two "
    "threads), the largest in %s: %s before %s on %s.', many(count(*) OVER (), 'hazard', 'hazards'), "
    "mark(kernel(kernel), kernel), "
    "mark(a_type || ' ' || place(a_file, a_line), a_file || ':' || a_line), mark(b_type || ' ' || "
    "place(b_file, b_line), b_file || ':' || b_line), many(words, 'word', 'words')) "
    "FROM hazards ORDER BY words DESC, rowid LIMIT 1";
