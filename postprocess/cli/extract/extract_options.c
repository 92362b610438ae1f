/* The command line of memtrace extract. */
#define _GNU_SOURCE
#include "extract.h"
#include "mpirun.h"
#include "output/json/comm_json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_command command = {
    .of = MT_OF_EXTRACT,
    .before =
        "Usage: memtrace extract [OPTION]... TRACE...\n"
        "Extracts from memory traces who communicated with whom. Communication is the bytes that a CTA loads "
        "and\n"
        "that were last written by another CTA of the same launch, by another CTA of an earlier launch, or "
        "by the\n"
        "same CTA of an earlier launch (the one with the same number, of whichever kernel).\n"
        "\n"
        "  memtrace extract /tmp/MemTrace-pipe-0 > comm.json     one CUDA stream\n"
        "  memtrace extract -o comm.json /tmp/MemTrace-pipe-*    all streams of a program, in launch order\n"
        "  memtrace extract -o comm.json run-2                   a folder: all of the newest run in it\n"
        "  mkfifo /tmp/MemTrace-pipe-0; ./app & memtrace extract /tmp/MemTrace-pipe-0 > comm.json   while it "
        "runs\n"
        "  zstd -dc trace.zst | memtrace extract - > comm.json   from a pipe\n"
        "  memtrace extract MemTrace-pipe-0 MemTrace-host.mtc > comm.json   kernels and the host code around "
        "them\n"
        "  jq '.KCV' comm.json                                   loads and stores per kernel and superstep\n"
        "\n"
        "TRACE is a file, a FIFO, or - for standard input. TRACE.meta, the companion that the traced program "
        "wrote, is\n"
        "read when it exists: it orders the launches of several streams and says what the host copied. A "
        "host trace\n"
        "(compact container, .mtc) of the same process may be among the TRACEs: then the host is shown by "
        "file and\n"
        "line, and copied bytes keep their writers.\n"
        "\n"
        "What comes out:\n"
        "  KDV CDV SDV   data volume: all bytes loaded and stored, per kernel, CTA and SM of each superstep "
        "(launch)\n"
        "  KCV CCV SCV   communication volume: of these, the bytes that are communication\n"
        "  HDV HCV       the same for host code, per file:line (with a host trace only)\n"
        "  transfers     source kernel, CTA, superstep -> reader's kernel, CTA, superstep: bytes and "
        "accesses\n"
        "  senders       the communication loaded by each launch, by who wrote it: the three kinds, told "
        "apart\n"
        "  addresses     each address involved in communication with all operations on it (a second pass: "
        "the slow one)\n"
        "Without being named, of a trace made with MEMTRACE_SAMPLE: estimates, data volumes scaled to all "
        "CTAs.\n"
        "Further analyses, only when --sections names them:\n"
#define MT_ANALYSIS(NAME, name, cost, every, what) what
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
        "  placement     bytes that would cross if the CTAs ran on several devices\n"
        "  shared        bank conflicts and hazards of shared memory, and what goes to local memory (JSON "
        "and text\n"
        "                alone; of programs built with --mt-spaces=global,shared,local)\n",
    .after = "Under mpirun or srun the ranks share the work: raw traces and compact ones with an index are "
             "read by parts,\n"
             "damaged ones and host traces by every rank (docs/mpi.md).\n"
             "\n"
             "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, "
             "or reading was\n"
             "interrupted (Ctrl-C): what was whole is in the output, which then says \"complete\": false and "
             "why.\n"
             "Definitions with a worked example: docs/definitions.md.\n",
    .wrong = mt_cli_usage,
};

static int no_section(const char *text, size_t n)
{
    const char *all[MT_SECTIONS + MT_LOCALITY_SECTIONS + 5] = {"all", "quick", "more", "shared"};
    memcpy(all + 4, mt_section_names, sizeof mt_section_names);
    memcpy(all + 4 + MT_SECTIONS, mt_locality_names, sizeof mt_locality_names);
    mt_cli_hint(text, n, all);
    return mt_cli_usage("'%.*s' is not a section", (int)n, text);
}

static int parse_sections(struct mt_extract *x, const char *text)
{
    x->sections = x->p.more.options.chosen = 0;
    x->shared = 0;
    while (*text) {
        size_t n = strcspn(text, ",");
        unsigned i = 0;
        while (i < MT_SECTIONS &&
               (strlen(mt_section_names[i]) != n || strncasecmp(text, mt_section_names[i], n) != 0))
            i++;
        if (i < MT_SECTIONS)
            x->sections |= 1u << i;
        else if (n == 3 && strncasecmp(text, "all", 3) == 0)
            x->sections |= (1u << MT_SECTIONS) - 1;
        else if (n == 5 && strncasecmp(text, "quick", 5) == 0)
            x->sections |= ((1u << MT_SECTIONS) - 1) & ~(1u << MT_ADDRESSES);
        else if (n == 6 && strncasecmp(text, "shared", 6) == 0)
            x->shared = 1;
        else if (!mt_locality_run_section(&x->p.more, text, n))
            return no_section(text, n);
        text += n + (text[n] == ',');
    }
    return x->sections | x->p.more.options.chosen | (unsigned)x->shared ? 0
                                                                        : mt_cli_usage("no section chosen");
}

static int extract_option(void *arg, int o)
{
    struct mt_extract *x = arg;
    switch (o) {
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    case MT_OPT_SECTIONS:
        x->chosen = 1;
        return parse_sections(x, optarg);
    case MT_OPT_FORMAT:
    case MT_OPT_BY:
    case MT_OPT_EDGES:
    case MT_OPT_TAG:
    case MT_OPT_TABLE:
        return mt_formats_option(&x->formats, o, optarg);
    case MT_OPT_STATS:
        x->stats = 1;
        return 0;
    default:
        return mt_pipeline_option(&x->p, o);
    }
}

int mt_extract_parse(struct mt_extract *x, int argc, char **argv)
{
    return mt_cli_options(&command, argc, argv, extract_option, x);
}
