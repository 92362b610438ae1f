/* Runs the further analyses on runs from a script, in parts that are merged in a random order, and writes
 * their sections as JSON. For locality_test.py: masks, warps and sites as no raw trace has them.
 *
 * usage: run_analyses LINE_BITS SAMPLE_BITS TOP SEED CELLS < script
 * SAMPLE_BITS of -N: reuse follows N lines at most, of more than 4 N.
 *   S id file line var column     a site ("-": empty)
 *   A id base bytes seq free name an allocation; free -1: never
 *   L superstep seq selected kernel
 *   R base stride cta smid meta count mask warp site [address...]
 *   P                             here ends a part
 * With an odd SEED the parts are packed to bytes and unpacked before they are merged. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../postprocess/output/results/results.h"

enum { MOST = 4096, LANES = 64 };
static struct mt_site_event sites[MOST];
static struct mt_alloc_event allocs[MOST];
static struct mt_locality parts[MOST];
static char *kernels[MOST];
static size_t nsites, nallocs, nparts, nkernels, nlaunches;
static struct mt_sites names;
static struct mt_site_table table;
static struct mt_run_launch launch, launches[MOST]; /* by superstep */
static struct mt_comm_launch told[MOST];            /* the same */
static int fresh;                                   /* the part knows no launch yet */

static void run_analyses_check(int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "no memory\n");
    exit(1);
}

static const char *run_analyses_kernel(const char *name)
{
    for (size_t i = 0; i < nkernels; i++)
        if (strcmp(kernels[i], name) == 0)
            return kernels[i];
    return kernels[nkernels++] = strdup(name);
}

static char *run_analyses_text(const char *word)
{
    return strdup(strcmp(word, "-") == 0 ? "" : word);
}

static void new_part(const struct mt_locality_options *o)
{
    run_analyses_check(mt_locality_init(&parts[nparts++], o, allocs, nallocs));
    fresh = 1;
}

static void run_analyses_run(char *words[], size_t n)
{
    uint64_t addresses[LANES];
    struct mt_access_run r = {.base = strtoull(words[0], NULL, 0),
                              .stride = strtoll(words[1], NULL, 0),
                              .cta = strtoull(words[2], NULL, 0),
                              .smid = (uint32_t)strtoul(words[3], NULL, 0),
                              .meta = (uint32_t)strtoul(words[4], NULL, 0),
                              .count = (uint32_t)strtoul(words[5], NULL, 0),
                              .mask = (uint32_t)strtoul(words[6], NULL, 0),
                              .warp = (uint32_t)strtoul(words[7], NULL, 0),
                              .site = (uint32_t)strtoul(words[8], NULL, 0)};
    for (size_t i = 9; i < n; i++)
        addresses[i - 9] = strtoull(words[i], NULL, 0);
    if (n > 9)
        r.addresses = addresses;
    if (fresh) {
        launch.begins = 0;
        run_analyses_check(mt_locality_feed(&parts[nparts - 1], ~0u, &launch, NULL, 0));
        fresh = 0;
    }
    run_analyses_check(mt_locality_feed(&parts[nparts - 1], ~0u, NULL, &r, 1));
}

static void run_analyses_line(char *words[], size_t n, const struct mt_locality_options *o)
{
    if (*words[0] == 'S')
        sites[nsites++] = (struct mt_site_event){.id = strtoull(words[1], NULL, 0),
                                                 .file = run_analyses_text(words[2]),
                                                 .line = strtoull(words[3], NULL, 0),
                                                 .var = run_analyses_text(words[4]),
                                                 .column = strtoull(words[5], NULL, 0)};
    else if (*words[0] == 'A')
        allocs[nallocs++] = (struct mt_alloc_event){.id = strtoull(words[1], NULL, 0),
                                                    .base = strtoull(words[2], NULL, 0),
                                                    .bytes = strtoull(words[3], NULL, 0),
                                                    .seq = strtoull(words[4], NULL, 0),
                                                    .free_seq = strtoull(words[5], NULL, 0),
                                                    .name = run_analyses_text(words[6]),
                                                    .file = "",
                                                    .kind = "cudaMalloc"};
    else if (*words[0] == 'P')
        new_part(o);
    else if (*words[0] == 'R')
        run_analyses_run(words + 1, n - 1);
    else if (*words[0] == 'L') {
        if (nparts == 0) {
            run_analyses_check(mt_sites_init(&names));
            run_analyses_check(mt_sites_table(&names, &table, sites, nsites));
            new_part(o);
        }
        launch = (struct mt_run_launch){.superstep = strtoull(words[1], NULL, 0),
                                        .seq = strtoull(words[2], NULL, 0),
                                        .selected = atoi(words[3]),
                                        .kernel = run_analyses_kernel(words[4]),
                                        .begins = 1,
                                        .sites = &table};
        run_analyses_check(mt_locality_feed(&parts[nparts - 1], ~0u, &launch, NULL, 0));
        launches[nlaunches++] = launch;
        fresh = 0;
    }
}

/* There and back. */
static void run_analyses_travel(struct mt_locality *m, const struct mt_locality_options *o)
{
    struct mt_parcel p;
    mt_parcel_init(&p, launches, nlaunches);
    mt_locality_pack(&p, m);
    run_analyses_check(p.failed);
    mt_locality_free(m);
    run_analyses_check(mt_locality_init(m, o, allocs, nallocs));
    struct mt_unpack u = {p.data, p.data + p.used, 0, launches, nlaunches};
    mt_locality_unpack(&u, m);
    run_analyses_check(u.failed);
    mt_parcel_free(&p);
}

int main(int argc, char **argv)
{
    static struct mt_json json;
    char *words[16 + LANES], *buffer = NULL;
    size_t room = 0;
    if (argc != 6)
        return 2;
    struct mt_locality_options o = {.chosen = (1u << MT_LOCALITY_PLACEMENT) - 1,
                                    .analysis.line_bits = (unsigned)atoi(argv[1]),
                                    .analysis.sample_bits = (unsigned)(atoi(argv[2]) < 0 ? 0 : atoi(argv[2])),
                                    .analysis.sample_lines =
                                        (unsigned)(atoi(argv[2]) < 0 ? -atoi(argv[2]) : 0),
                                    .analysis.top = (size_t)atoi(argv[3]),
                                    .analysis.cells = (size_t)atoi(argv[5])};
    unsigned seed = (unsigned)atoi(argv[4]);
    while (getline(&buffer, &room, stdin) > 0) {
        size_t n = 0;
        for (char *w = strtok(buffer, " \n"); w && n < 16 + LANES; w = strtok(NULL, " \n"))
            words[n++] = w;
        run_analyses_line(words, n, &o);
    }
    for (size_t i = 0; i < nparts && seed % 2; i++)
        run_analyses_travel(&parts[i], &o);
    while (nparts > 1) {
        size_t i = (unsigned)rand_r(&seed) % (nparts - 1);
        run_analyses_check(mt_locality_merge(&parts[i], &parts[i + 1]));
        mt_locality_free(&parts[i + 1]);
        memmove(&parts[i + 1], &parts[i + 2], (nparts - i - 2) * sizeof *parts);
        nparts--;
        if (seed % 2)
            run_analyses_travel(&parts[i], &o);
    }
    run_analyses_check(mt_locality_finish(&parts[0]));
    mt_json_open(&json, STDOUT_FILENO);
    mt_json_object(&json, NULL, 0);
    for (size_t i = 0; i < nlaunches; i++)
        told[i].kernel = launches[i].kernel;
    struct mt_comm comm = {.launches = told, .nlaunches = nlaunches};
    run_analyses_check(mt_locality_write(
        &json, &(struct mt_comm_result){.comm = &comm, .locality = &parts[0], .sites = &names}, 0));
    mt_json_end(&json);
    int rc = mt_json_close(&json);
    mt_locality_free(&parts[0]);
    mt_sites_free(&names);
    mt_site_table_free(&table);
    for (size_t i = 0; i < nkernels; i++)
        free(kernels[i]);
    for (size_t i = 0; i < nsites; i++) {
        free((char *)sites[i].file);
        free((char *)sites[i].var);
    }
    for (size_t i = 0; i < nallocs; i++)
        free((char *)allocs[i].name);
    free(buffer);
    return rc != 0;
}
