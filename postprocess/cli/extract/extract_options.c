/* The command line of mt-extract. */
#define _GNU_SOURCE
#include "extract.h"
#include "mpirun.h"
#include "output/json/comm_json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mt-extract [OPTION]... TRACE...\n"
    "Extracts from memory traces who communicated with whom. Communication is the bytes that a CTA loads "
    "and\n"
    "that were last written by another CTA of the same launch, by another CTA of an earlier launch, or by "
    "the\n"
    "same CTA of an earlier launch (the one with the same number, of whichever kernel).\n"
    "\n"
    "  mt-extract /tmp/MemTrace-pipe-0 > comm.json        one CUDA stream\n"
    "  mt-extract -o comm.json /tmp/MemTrace-pipe-*       all streams of a program, in launch order\n"
    "  mt-extract -o comm.json run-2                      a folder: all of the newest run in it\n"
    "  mkfifo /tmp/MemTrace-pipe-0; ./app & mt-extract /tmp/MemTrace-pipe-0 > comm.json    while it runs\n"
    "  zstd -dc trace.zst | mt-extract - > comm.json      from a pipe\n"
    "  mt-extract MemTrace-pipe-0 MemTrace-host.mtc > comm.json    kernels and the host code around them\n"
    "  jq '.KCV' comm.json                                loads and stores per kernel and superstep\n"
    "\n"
    "TRACE is a file, a FIFO, or - for standard input. TRACE.meta, the companion that the traced program "
    "wrote, is\n"
    "read when it exists: it orders the launches of several streams and says what the host copied. A host "
    "trace\n"
    "(compact container, .mtc) of the same process may be among the TRACEs: then the host is shown by file "
    "and\n"
    "line, and copied bytes keep their writers.\n"
    "\n"
    "What comes out:\n"
    "  KDV CDV SDV   data volume: all bytes loaded and stored, per kernel, CTA and SM of each superstep "
    "(launch)\n"
    "  KCV CCV SCV   communication volume: of these, the bytes that are communication\n"
    "  HDV HCV       the same for host code, per file:line (with a host trace only)\n"
    "  transfers     source kernel, CTA, superstep -> reader's kernel, CTA, superstep: bytes and accesses\n"
    "  senders       the communication loaded by each launch, by who wrote it: the three kinds, told apart\n"
    "  estimates     of a trace made with MEMTRACE_SAMPLE: data volumes scaled to all CTAs\n"
    "  addresses     each address involved in communication with all operations on it (a second pass: the "
    "slow one)\n"
    "Further analyses, only when --sections names them:\n"
    "  lines         volumes per source line, variable and allocation\n"
    "  coalescing    sectors and lines per request of a warp, strides of lanes (compact traces); sectors of "
    "atomics\n"
    "                are those of smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_atom: a word counts "
    "once\n"
    "  reuse         reuse distances and working sets of CTAs, SMs and the device\n"
    "  sharing       cache lines that CTAs share: for reading, truly, falsely\n"
    "  conflicts     accesses of two CTAs of one launch to the same bytes, at least one a plain store\n"
    "  traffic       which launch reads and writes which allocation, and where in it\n"
    "  placement     bytes that would cross if the CTAs ran on several devices\n"
    "\n"
    "Options:\n"
    "  -o, --output=FILE       write to FILE instead of standard output\n"
    "  -s, --sections=LIST     of KCV,KDV,CCV,CDV,SCV,SDV,HCV,HDV,transfers,senders,addresses, or all, or "
    "quick: "
    "all\n"
    "                          but addresses, or more: the seven further analyses; default: all, addresses "
    "only\n"
    "                          where they have at most a million operations\n"
    "      --line-size=N           cache line of reuse and sharing, a power of two from 32 to 4096 (128)\n"
    "      --sample=N              reuse: look at one of N lines, a power of two (1: all)\n"
    "      --top=N                 text: at most N rows of a table (25); sharing: name so many lines per "
    "launch "
    "(10)\n"
    "      --devices=N             placement: so many devices (2)\n"
    "      --format=text           tables for people instead of JSON: volumes by kernel, and the further "
    "analyses\n"
    "  -k, --kernels=REGEX     report launches of kernels whose name matches (POSIX extended)\n"
    "  -t, --supersteps=A:B    report launches A to B-1 (A..B: to B; A:, :B, A);\n"
    "                          in MEMTRACE_LAUNCHES, A:B is to B\n"
    "                          Both filters choose what is reported. Every record is still read, because any "
    "of\n"
    "                          them may be the last writer of what a reported kernel loads. Transfers are "
    "reported\n"
    "                          by their reader.\n"
    "      --same-cta=local    the same CTA of different supersteps is one CTA: what it reads of itself is "
    "no\n"
    "                          communication (default: instance, each launch has its own CTAs)\n"
    "      --strict            leave out what is written and read in one superstep: CUDA does not order its "
    "CTAs,\n"
    "                          so such a pair depends on the order of the trace (it is marked "
    "\"unordered\")\n"
    "      --no-host           leave out what the host did: copies, fills and host accesses. Allocations "
    "stay "
    "known\n" MT_FORMAT_HELP
    "      --threads=N         use N threads (default: as many as there are processors, at most 32)\n"
    "      --companion=FILE    the companion of the first TRACE; again for the second, and so on\n"
    "      --no-companion      do as if there were no companion; a single FIFO is then read as it comes\n"
    "      --stats             say on stderr how long it took; under mpirun a line per rank, with bytes "
    "exchanged\n"
    "      --live              what programs start themselves when MEMTRACE_SINK asks for it\n"
    "  -q, --quiet             say only what fails, and what the trace lacks\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "Under mpirun or srun the ranks share the work: raw traces and compact ones with an index are read by "
    "parts,\n"
    "damaged ones and host traces by every rank (docs/mpi.md).\n\n"
    "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, or "
    "reading was\n"
    "interrupted (Ctrl-C): what was whole is in the output, which then says \"complete\": false and why.\n"
    "Definitions with a worked example: docs/definitions.md.\n";

enum { OPT_LIVE = 256, OPT_STATS };
static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                        {"sections", required_argument, NULL, 's'},
                                        {"live", no_argument, NULL, OPT_LIVE},
                                        {"stats", no_argument, NULL, OPT_STATS},
                                        MT_FORMAT_OPTIONS,
                                        MT_PIPELINE_OPTIONS};

static int no_section(const char *text, size_t n)
{
    const char *all[MT_SECTIONS + MT_LOCALITY_SECTIONS + 4] = {"all", "quick", "more"};
    memcpy(all + 3, mt_section_names, sizeof mt_section_names);
    memcpy(all + 3 + MT_SECTIONS, mt_locality_names, sizeof mt_locality_names);
    mt_cli_hint(text, n, all);
    return mt_cli_usage("'%.*s' is not a section", (int)n, text);
}

static int parse_sections(struct mt_extract *x, const char *text)
{
    x->sections = x->p.more.options.chosen = 0;
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
        else if (!mt_locality_run_section(&x->p.more, text, n))
            return no_section(text, n);
        text += n + (text[n] == ',');
    }
    return x->sections | x->p.more.options.chosen ? 0 : mt_cli_usage("no section chosen");
}

/* What can be found when everything is read once, as it comes? What looks twice, or must know allocations and
 * sites before, wants whole traces. */
static int check_live(struct mt_extract *x, const char *output)
{
    if (!output)
        return mt_cli_usage("--live needs --output");
    if (!x->chosen)
        x->sections &= ~(1u << MT_ADDRESSES);
    x->whole = x->formats.format != MT_FORMAT_JSON || x->p.more.options.chosen != 0 ||
               (x->sections & 1u << MT_ADDRESSES) != 0;
    x->live = !x->whole;
    return 0;
}

static int extract_option(void *arg, int o)
{
    struct mt_extract *x = arg;
    switch (o) {
    case 'o':
        x->output = optarg;
        return 0;
    case 's':
        x->chosen = 1;
        return parse_sections(x, optarg);
    case 'f':
    case MT_OPT_BY:
    case MT_OPT_EDGES:
    case MT_OPT_TAG:
    case MT_OPT_TABLE:
        return mt_formats_option(&x->formats, o, optarg);
    case OPT_LIVE:
        x->live = 1;
        return 0;
    case OPT_STATS:
        x->stats = 1;
        return 0;
    default:
        return mt_pipeline_option(&x->p, o, help);
    }
}

int mt_extract_parse(struct mt_extract *x, int argc, char **argv)
{
    int rc = mt_cli_options(argc, argv, "o:s:f:" MT_COMMON_SHORT, options, extract_option, x);
    return rc == 0 && x->live ? check_live(x, x->output) : rc;
}
