/* Writing the result of memtrace extract: JSON, text, or another format. */
#define _GNU_SOURCE
#include "extract.h"
#include "extract_tables.h"
#include "output/json/comm_json.h"
#include "output/results/summary.h"
#include "output/json/timeline_json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mt_extract_addresses_failed(const struct mt_addresses *a)
{
    return mt_cli_fail("%s%s%s", a->why ? a->why : "no memory for the addresses", a->sys ? ": " : "",
                       a->sys ? strerror(a->sys) : "");
}

/* {"cublasSgemm": "cublas"}: launches that are calls of libraries. */
static void write_libraries(struct mt_extract *x)
{
    const char *seen[512];
    size_t n = 0;
    for (size_t i = 0; x->p.events && i < x->p.comm->nlaunches && n < sizeof seen / sizeof *seen; i++) {
        const struct mt_launch_event *e = x->p.events[i];
        size_t k = 0;
        if (!e || !*e->library)
            continue;
        while (k < n && strcmp(seen[k], e->kernel) != 0)
            k++;
        if (k < n)
            continue;
        if (!n)
            mt_json_object(&x->json, "libraries", 1);
        seen[n++] = e->kernel;
        mt_json_text(&x->json, e->kernel, e->library);
    }
    if (n)
        mt_json_end(&x->json);
}

static int extract_gaps(struct mt_extract *x, struct mt_gaps *gaps)
{
    return mt_gaps_find(gaps, x->p.source, x->p.comm, mt_locality_run_traffic(&x->p.more));
}

static void write_head(struct mt_extract *x, int complete, uint64_t untraced, uint64_t untraced_launches,
                       const struct mt_gaps *gaps)
{
    struct mt_json *j = &x->json;
    size_t notes;
    int ignored;
    const char *const *note = mt_source_notes(x->p.source, &notes, &ignored);
    mt_json_text(j, "format", "memtrace-comm");
    mt_json_u64(j, "version", 1);
    mt_json_array(j, "inputs", 1);
    for (size_t i = 0; i < x->p.inputs.npaths; i++)
        mt_json_text(j, NULL, x->p.inputs.paths[i]);
    mt_json_end(j);
    mt_json_known(j, "complete", complete);
    mt_json_array(j, "notes", 0);
    for (size_t i = 0; i < notes; i++)
        mt_json_text(j, NULL, note[i]);
    if (x->no_addresses)
        mt_json_text(j, NULL, "addresses are left out: reading was interrupted");
    if (x->many_addresses)
        mt_json_text(j, NULL, MT_MANY_ADDRESSES);
    if (x->no_more)
        mt_json_text(j, NULL, "the further analyses are left out: reading was interrupted");
    mt_locality_run_notes(&x->p.more, j);
    mt_json_end(j);
    mt_json_object(j, "options", 1);
    mt_json_text(j, "same-cta", x->p.options.local ? "local" : "instance");
    mt_json_bool(j, "strict", x->p.options.strict);
    mt_json_bool(j, "host", !(x->p.inputs.flags & MT_SOURCE_NO_HOST));
    mt_json_text(j, "kernels", x->p.filter.kernels_text);
    mt_json_text(j, "supersteps", x->p.filter.supersteps_text);
    mt_json_end(j);
    mt_json_u64(j, "launches", x->p.comm->nlaunches);
    mt_json_u64(j, "records", x->p.comm->records);
    if (x->p.options.host)
        mt_json_u64(j, "host_accesses", x->p.comm->host_accesses);
    mt_json_u64(j, "unknown", x->p.comm->unknown);
    mt_json_u64(j, "untraced", untraced);
    mt_json_u64(j, "untraced_launches", untraced_launches);
    mt_gaps_write(j, gaps);
    write_libraries(x);
}

/* The section addresses; 1 if it was cut short. -1: *code says why. */
static int write_addresses(struct mt_extract *x, int *code)
{
    struct mt_json *j = &x->json;
    mt_json_object(j, mt_section_names[MT_ADDRESSES], 0);
    int rc = x->no_addresses ? 0 : mt_addresses_write(j, &x->addresses, x->p.comm, &mt_cli_stop);
    mt_json_end(j);
    if (rc < 0)
        *code = mt_extract_addresses_failed(&x->addresses);
    if (rc > 0 && !j->error) { /* the head is already */
        mt_cli_say("interrupted: not all addresses are in the output");
        mt_json_bool(j, "interrupted", 1);
    }
    return rc;
}

/* Of tables; notes: room for MT_LOCALITY_RUN_NOTES. */
static struct mt_comm_result extract_result(const struct mt_extract *x, int complete, const char **notes)
{
    struct mt_comm_result r = mt_pipeline_result(&x->p, complete, notes);
    r.sections = x->sections;
    r.tag = x->formats.tag;
    return r;
}

static int extract_sentences(struct mt_extract *x, FILE *f, const struct mt_comm_result *r)
{
    struct mt_summary s = {.n = 0};
    int rc = mt_summary_of(&s, r, &x->findings);
    if (rc == 0)
        mt_summary_print(&s, f);
    mt_summary_free(&s);
    return rc;
}

/* Tables, or sentences. 0, or -1 without memory. */
static int extract_text(struct mt_extract *x, FILE *f, int complete)
{
    int ignored, rc;
    const char *more[MT_LOCALITY_RUN_NOTES];
    struct mt_extract_text head = {.complete = complete};
    head.notes = mt_source_notes(x->p.source, &head.nnotes, &ignored);
    if ((rc = extract_gaps(x, &head.gaps)) == 0 &&
        (rc = mt_estimates_gather(&x->p.estimates, x->p.source, x->p.inputs.npaths)) == 0 &&
        (rc = mt_comm_merged(x->p.comm)) == 0) {
        const struct mt_comm_result r = extract_result(x, complete, more);
        mt_locality_run_head(&x->p.more, f, x->p.comm, &head);
        rc = x->formats.format == MT_FORMAT_TEXT
                 ? mt_results_text(f, &r, x->p.more.rows, x->shared ? &x->p.onchip : NULL)
                 : extract_sentences(x, f, &r);
    }
    mt_gaps_free(&head.gaps);
    return rc;
}

int mt_extract_write_text(struct mt_extract *x, int complete)
{
    int code = mt_output_ready(&x->p.out);
    FILE *f = code ? NULL : mt_output_stream(&x->p.out);
    if (!f)
        return code ? code : MT_EXIT_FAILURE;
    int failed = extract_text(x, f, complete);
    if (failed)
        mt_cli_say("no memory to sort the results");
    code = mt_output_close(&x->p.out, f);
    return failed ? MT_EXIT_FAILURE : code;
}

int mt_extract_write(struct mt_extract *x, int complete)
{
    struct mt_json *j = &x->json;
    uint64_t untraced, untraced_launches;
    const char *notes[MT_LOCALITY_RUN_NOTES];
    struct mt_error err;
    struct mt_gaps gaps;
    int cut = 0, code = mt_output_ready(&x->p.out);
    if (code)
        return code;
    if (mt_source_untraced(x->p.source, &untraced, &untraced_launches, &err) != 0)
        return mt_cli_failed(&err);
    if (extract_gaps(x, &gaps) != 0) {
        mt_gaps_free(&gaps);
        return mt_cli_fail("no memory for the notes");
    }
    mt_json_open(j, x->p.out.fd);
    mt_json_object(j, NULL, 0);
    write_head(x, complete, untraced, untraced_launches, &gaps);
    mt_gaps_free(&gaps);
    const struct mt_comm_result r = extract_result(x, complete, notes);
    if (mt_estimates_gather(&x->p.estimates, x->p.source, x->p.inputs.npaths) != 0 ||
        mt_estimates_write(j, &r) != 0 || mt_comm_write(j, x->p.comm, x->sections) != 0 ||
        mt_locality_write(j, &r, 1) != 0)
        return mt_cli_fail("no memory to sort the results");
    if (x->shared)
        mt_shared_json(j, &x->p.onchip);
    if (x->sections & 1u << MT_ADDRESSES && !x->many_addresses)
        cut = write_addresses(x, &code);
    mt_json_end(j);
    int failed = mt_output_json(&x->p.out, j);
    return failed ? failed : code ? code : cut ? MT_EXIT_INPUT : 0;
}

static int extract_timeline(struct mt_extract *x, const struct mt_comm_result *r)
{
    int code = mt_output_ready(&x->p.out);
    if (code)
        return code;
    mt_json_open(&x->json, x->p.out.fd);
    int failed = mt_timeline_write(&x->json, r);
    if ((code = mt_output_json(&x->p.out, &x->json)) != 0)
        return code;
    return failed ? mt_cli_fail("no memory for the timeline") : 0;
}

int mt_extract_write_other(struct mt_extract *x, int *complete)
{
    const char *notes[MT_LOCALITY_RUN_NOTES];
    struct mt_comm_result r = extract_result(x, *complete, notes);
    if (mt_comm_merged(x->p.comm) != 0)
        return mt_cli_fail("no memory for the transfers");
    if (x->formats.format == MT_FORMAT_PERFETTO)
        return extract_timeline(x, &r);
    if (!mt_formats_tables(&x->formats))
        return mt_formats_write(&x->formats, &r, &x->p.out);
    int interrupted = 0,
        code = mt_tables_write(&x->formats, &r, &x->p.out, x->output, &x->p.progress, &interrupted);
    if (interrupted)
        *complete = 0;
    return code;
}
