/* mt-shared: bank conflicts and hazards of shared memory, and what local memory costs. */
#define _GNU_SOURCE
#include "output/json/json.h"
#include "cli/base/commands.h"
#include "shared.h"
#include "memtrace/host.h"
#include "memtrace/container.h"
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mt-shared [OPTION]... TRACE...\n"
    "Shows how kernels use shared and local memory: bank conflicts by source line, accesses that no barrier\n"
    "orders, and the bytes that go to local memory.\n"
    "\n"
    "  mt-cc --mt-spaces=global,shared,local app.cu -o app        compile with records of such accesses\n"
    "  MEMTRACE_FORMAT=compact MEMTRACE_DIR=run-2 ./app           compact traces have them, raw ones do not\n"
    "  mt-shared run-2                                            a folder: all of the newest run in it\n"
    "  mt-shared --format json -o shared.json run-2/MemTrace-pipe-0.mtc\n"
    "\n"
    "Bank conflicts: shared memory has 32 banks of 4 bytes. An access of a warp takes as many wavefronts as "
    "the\n"
    "fullest bank has different words of it; those beyond what it would take without conflicts are "
    "conflicts.\n"
    "Hazards: accesses of two threads of a CTA to the same bytes, at least one a plain store, without a "
    "barrier\n"
    "(within a warp: or __syncwarp) between them. RAW: a load after a store; WAR: a store after a load; "
    "WAW.\n"
    "\n"
    "Options:\n"
    "  -f, --format=FORMAT     text (default) or json\n"
    "  -o, --output=FILE       write to FILE instead of standard output\n"
    "      --top=N             text: at most N rows of a table (25)\n"
    "  -k, --kernels=REGEX     only launches of kernels whose name matches (POSIX extended)\n"
    "  -t, --supersteps=A:B    only launches A to B-1 (A..B: to B; A:, :B, A);\n"
    "                          in MEMTRACE_LAUNCHES, A:B is to B\n"
    "      --companion=FILE    the companion of the first TRACE; again for the second, and so on\n"
    "      --no-companion      do as if there were no companion\n"
    "  -q, --quiet             say only what fails, and what the trace lacks\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "Exit code: 0 fine, 1 failure, 2 wrong usage (a trace without such records, too), 3 the trace is\n"
    "truncated, corrupt or incomplete, or reading was interrupted: what was whole is in the output.\n"
    "Definitions: docs/definitions.md.\n";

enum { OPT_TOP = 256, TEXT = 0, JSON = 1 };
static const struct option long_options[] = {{"format", required_argument, NULL, 'f'},
                                             {"output", required_argument, NULL, 'o'},
                                             {"top", required_argument, NULL, OPT_TOP},
                                             MT_COMMON_OPTIONS};

struct options {
    struct mt_shared shared;
    const char *output;
    int format;
};

static int shared_option(void *arg, int o)
{
    static const char *const formats[] = {"text", "json", NULL};
    struct options *x = arg;
    switch (o) {
    case 'f':
        if ((x->format = mt_cli_word(optarg, formats)) < 0)
            return mt_cli_usage("'%s' is not a format: text or json", optarg);
        return 0;
    case 'o':
        x->output = optarg;
        return 0;
    case OPT_TOP:
        return mt_cli_number(optarg, 1, 1000000, &x->shared.top)
                   ? 0
                   : mt_cli_usage("--top is a number from 1 to 1000000, not '%s'", optarg);
    default:
        return mt_common_option(o, &x->shared.inputs, &x->shared.filter, help);
    }
}

static int shared_read(struct mt_shared *x)
{
    struct mt_item item;
    struct mt_error err;
    struct mt_progress progress;
    uint64_t runs = 0, launches = 0;
    int rc = 0, failed = 0, selected = 0;
    mt_progress_init(&progress);
    while (!failed && !mt_cli_stop && (rc = mt_source_next(x->source, &item, &err)) > 0) {
        if (item.kind != MT_ITEM_RUNS)
            continue;
        launches += (item.flags & MT_BATCH_BEGIN) != 0;
        if (item.flags & MT_BATCH_BEGIN)
            selected = mt_filter_match(&x->filter, item.kernel, item.superstep);
        failed = mt_onchip_item(&x->found, &item, selected) != 0;
        mt_progress_step(&progress, x->source, runs += item.count);
    }
    mt_progress_end(&progress);
    if (failed)
        return mt_cli_fail("no memory for the results");
    if (!mt_cli_stop && rc < 0)
        return mt_cli_failed(&err);
    mt_filter_explain(&x->filter, launches, x->found.nlaunches);
    return mt_inputs_finish(x->source, &x->complete);
}

/* 0, or MT_EXIT_USAGE after saying what to do: no input can have what is asked for. */
static int shared_check(const struct mt_inputs *in)
{
    for (size_t i = 0; i < in->npaths; i++)
        if (strcmp(in->paths[i], "-") == 0 || mt_container_features(in->paths[i]) & MT_MTC_HAS_SPACES)
            return 0;
    return mt_cli_usage(
        "%s: has no records of shared or local memory: its kernels use none, or were not compiled with "
        "--mt-spaces=global,shared,local (mt-run: --spaces) and run with MEMTRACE_FORMAT=compact",
        in->npaths ? in->paths[0] : "no input");
}

static int shared_write(struct options *x, struct mt_output *out)
{
    static struct mt_json json; /* holds the output buffer */
    int code = mt_output_ready(out), rc = 0;
    if (code)
        return code;
    if (x->format == JSON) {
        mt_json_open(&json, out->fd);
        if (mt_shared_json(&json, &x->shared) != 0)
            return mt_cli_fail("no memory for the results");
        return mt_json_close(&json) != 0 ? mt_output_failed(out, json.error) : 0;
    }
    FILE *f = mt_output_stream(out);
    if (!f)
        return MT_EXIT_FAILURE;
    rc = mt_shared_text(f, &x->shared);
    code = mt_output_close(out, f);
    return rc ? mt_cli_fail("no memory for the results") : code;
}

int mt_shared_command(int argc, char **argv)
{
    struct options x = {.shared = {.top = 25}};
    struct mt_shared *s = &x.shared;
    struct mt_output out = {0};
    mt_cli_start("mt-shared");
    mt_filter_init(&s->filter);
    s->inputs.flags = MT_SOURCE_RUNS | MT_SOURCE_SPACES | MT_SOURCE_NO_HOST | MT_SOURCE_NO_MEMORY;
    int code = mt_cli_options(argc, argv, "f:o:" MT_COMMON_SHORT, long_options, shared_option, &x);
    if (code == 0) {
        mt_inputs_take(&s->inputs, argc, argv);
        code = mt_inputs_folders(&s->inputs);
    }
    if (code == 0)
        code = mt_output_open(&out, x.output, &s->inputs);
    if (code == 0 && !(s->source = mt_inputs_source(&s->inputs, &code)) && !code)
        code = MT_EXIT_FAILURE;
    if (code == 0)
        code = shared_check(&s->inputs);
    if (code == 0 && mt_onchip_init(&s->found) != 0)
        code = mt_cli_fail("no memory");
    int input = 0;
    if (code == 0 && (code = input = shared_read(s)) == MT_EXIT_INPUT)
        code = 0;
    if (code == 0)
        code = shared_write(&x, &out);
    mt_output_abandon(&out);
    mt_onchip_free(&s->found);
    mt_source_close(s->source);
    mt_filter_free(&s->filter);
    mt_inputs_free(&s->inputs);
    return code < 0 ? MT_EXIT_OK : code ? code : input;
}
