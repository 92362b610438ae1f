/* mt-ptx: the command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "../../llvm-pass/base/options.h"
#include "cli/base/near.h"
#include "mt-ptx.h"

static const char usage[] =
    "Usage: mt-ptx [OPTION]... INPUT -o IMAGE\n"
    "Make a CPU image of device code that another compiler has turned into PTX.\n"
    "INPUT is PTX as text, a fatbin, or an object, library or program with fatbins in it.\n"
    "\n"
    "  -o, --output=IMAGE     where the image goes; with --emit-ir the IR, `-` (the default) is standard "
    "output\n"
    "  -f, --format=FORMAT    image (default), or ir (as --emit-ir)\n"
    "      --emit-ir          write the LLVM IR that is made of the PTX, and stop\n"
    "      --list             say which device code INPUT has, and stop\n"
    "      --divide=SIZE      for programs: modules with more bytes of PTX than that are compiled kernel by "
    "kernel;\n"
    "                         default 256K; off: none\n"
    "      --limit=SIZE       memory that PTX may ask for without its text having as much, by arrays of "
    "zeros "
    "and the\n"
    "                         like, and that a small fatbin may unpack to; default 16M\n"
    "      --module=N         take the PTX of this one of several modules, counted from 0 as --list does\n"
    "      --cache-list       say what is kept of images that programs had made, and stop\n"
    "      --cache-clear      remove all of it, and stop\n"
    "      --cache=FOLDER     where that is; default: MEMTRACE_CACHE, or memtrace in the user's cache "
    "folder\n"
    "      --mt-KEY=VALUE     an option of the pass, as mt-cc has them: kernels, exclude, only, "
    "vectors, "
    "count, cpu\n"
    "  -v, --verbose          say how many kernels there are, and how each runs\n"
    "  -q, --quiet            say only what fails\n"
    "  -h, --help             this text\n"
    "  -V, --version          the version\n";

#define DIVIDE (256u << 10) /* bytes of PTX: below, all of it takes few seconds */

enum {
    OPTION_IR = 256,
    OPTION_LIST,
    OPTION_MODULE,
    OPTION_SERVE,
    OPTION_BASE,
    OPTION_KERNEL,
    OPTION_DIVIDE,
    OPTION_LIMIT,
    OPTION_CACHE,
    OPTION_CACHE_KEY,
    OPTION_CACHE_LIMIT,
    OPTION_CACHE_LIST,
    OPTION_CACHE_CLEAR,
};
/* First those that other programs of ours use alone: they are in no list. */
enum { INTERNAL = 5 };
static const struct option options[] = {{"serve", no_argument, NULL, OPTION_SERVE},
                                        {"base", no_argument, NULL, OPTION_BASE},
                                        {"kernel", required_argument, NULL, OPTION_KERNEL},
                                        {"cache-key", required_argument, NULL, OPTION_CACHE_KEY},
                                        {"cache-limit", required_argument, NULL, OPTION_CACHE_LIMIT},
                                        {"output", required_argument, NULL, 'o'},
                                        {"format", required_argument, NULL, 'f'},
                                        {"emit-ir", no_argument, NULL, OPTION_IR},
                                        {"list", no_argument, NULL, OPTION_LIST},
                                        {"module", required_argument, NULL, OPTION_MODULE},
                                        {"divide", required_argument, NULL, OPTION_DIVIDE},
                                        {"limit", required_argument, NULL, OPTION_LIMIT},
                                        {"cache", required_argument, NULL, OPTION_CACHE},
                                        {"cache-list", no_argument, NULL, OPTION_CACHE_LIST},
                                        {"cache-clear", no_argument, NULL, OPTION_CACHE_CLEAR},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {"quiet", no_argument, NULL, 'q'},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'V'},
                                        {NULL, 0, NULL, 0}};
static const char *const formats[] = {"image", "ir", NULL};

static const char letters[] = "f:o:O:vqhV";

static int usage_error(const char *format, const char *word)
{
    fputs("mt-ptx: ", stderr);
    fprintf(stderr, format, word); /* always a text of this file */
    fputs("\nmt-ptx: --help says what there is\n", stderr);
    return 2;
}

/* --mt-KEY=VALUE goes to the pass, and out of argv. 0, or 2. */
static int take_pass_options(int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        const char *why = NULL;
        if (strncmp(argv[i], "--mt-", 5) != 0) {
            argv[kept++] = argv[i];
        } else if (mt_pass_option_set(argv[i] + 5, &why) != 0) {
            fprintf(stderr, "mt-ptx: %s: %s\n", argv[i], why);
            return 2;
        }
    }
    argv[kept] = NULL;
    *argc = kept;
    return 0;
}

static int parse_number(const char *word, int *out)
{
    char *end;
    long n = strtol(word, &end, 10);
    if (end == word || *end || n < 0 || n > 1000000) {
        return usage_error("%s is not the number of a module", word);
    }
    *out = (int)n;
    return 0;
}

static int parse_size(const char *word, uint64_t *out)
{
    char *end;
    unsigned long long n = strtoull(word, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    *out = n << shift;
    if (strcmp(word, "off") == 0) {
        *out = UINT64_MAX / 2;
    } else if (end == word || *word == '-' || end[shift != 0] || n > UINT32_MAX) {
        return usage_error("%s is not a size: 256K and so on, or off", word);
    }
    return 0;
}

/* -1: go on; otherwise the exit code. */
static int parse_arguments(int argc, char **argv, struct request *r)
{
    int c;
    *r = (struct request){.number = -1, .divide = DIVIDE};
    if (take_pass_options(&argc, argv) != 0) {
        return 2;
    }
    if (mt_near_completion(argc, argv, letters, options + INTERNAL)) {
        return mt_near_told("mt-ptx");
    }
    if ((c = mt_near_values(argc, argv, letters, options)) != 0) {
        if (c == 'f') {
            mt_near_word("", 0, formats);
        }
        return mt_near_told("mt-ptx");
    }
    while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        switch (c) {
        case 'o':
            r->output = optarg;
            break;
        case 'f':
            if (strcmp(optarg, "image") && strcmp(optarg, "ir")) {
                const char *near = mt_near_word(optarg, strlen(optarg), formats);
                return near ? usage_error("did you mean --format=%s?", near)
                            : usage_error("%s is not a format: image or ir", optarg);
            }
            r->emit_ir = optarg[1] == 'r';
            break;
        case OPTION_IR:
            r->emit_ir = 1;
            break;
        case OPTION_LIST:
            r->list = 1;
            break;
        case OPTION_MODULE:
            if (parse_number(optarg, &r->number) != 0) {
                return 2;
            }
            break;
        case OPTION_SERVE:
            r->serve = 1;
            break;
        case OPTION_BASE:
            r->base = 1;
            break;
        case OPTION_KERNEL:
            r->kernel = optarg;
            break;
        case OPTION_DIVIDE:
            if (parse_size(optarg, &r->divide) != 0) {
                return 2;
            }
            break;
        case OPTION_LIMIT:
            if (parse_size(optarg, &mt_ptxtool_limit) != 0) {
                return 2;
            }
            break;
        case OPTION_CACHE:
            r->cache = optarg;
            break;
        case OPTION_CACHE_KEY:
            r->cache_key = optarg;
            break;
        case OPTION_CACHE_LIMIT:
            r->cache_limit = strtoull(optarg, NULL, 10);
            break;
        case OPTION_CACHE_LIST:
            r->cache_list = 1;
            break;
        case OPTION_CACHE_CLEAR:
            r->cache_clear = 1;
            break;
        case 'v':
            r->verbose = mt_pass_options.verbose = 1;
            break;
        case 'h':
            fputs(usage, stdout);
            return mt_near_told("mt-ptx");
        case 'V':
            puts("mt-ptx (memtrace) " MT_VERSION);
            return mt_near_told("mt-ptx");
        case 'q':
            r->verbose = mt_pass_options.verbose = 0;
            break;
        default: {
            const char *near = mt_near_option(argv[optind - 1], options + INTERNAL);
            return near ? usage_error("did you mean --%s?", near) : 2;
        }
        }
    }
    if (r->serve || r->cache_list || r->cache_clear) {
        return optind < argc ? usage_error("%s is too much here", argv[optind]) : -1;
    }
    if (optind + 1 != argc) {
        return usage_error("%s", optind == argc ? "no input" : "more than one input");
    }
    r->input = argv[optind];
    if (!r->output && r->emit_ir) {
        r->output = "-";
    }
    return r->output || r->list ? -1 : usage_error("%s", "no -o IMAGE");
}

/* The one that is wanted; NULL after a message. */
static const struct module *choose_module(const struct request *r, const struct input *in)
{
    const struct module *found = NULL;
    unsigned have = 0;
    for (unsigned i = 0; i < in->n; i++) {
        if (mt_ptxtool_module_has(&in->modules[i], FATBIN_PTX) &&
            (r->number < 0 || (unsigned)r->number == i)) {
            found = &in->modules[i];
            have++;
        }
    }
    if (have == 1) {
        return found;
    }
    if (have > 1) {
        fprintf(stderr, "mt-ptx: %s has PTX of %u modules: choose with --module=N (--list names them)\n",
                in->name, have);
    } else if (in->n) {
        fprintf(stderr,
                "mt-ptx: %s has machine code alone here, no PTX (--list names its kernels): compile it with "
                "-gencode=arch=compute_90,code=compute_90\n",
                in->name);
    } else {
        fprintf(stderr, "mt-ptx: %s has no device code\n", in->name);
    }
    return NULL;
}

static int make_from(const struct request *r, const struct input *in)
{
    const struct module *m = choose_module(r, in);
    return m ? mt_ptxtool_image_make(r, in->name, m, 1, NULL) : 1;
}

/* LLVM's passes call themselves for each step of a long chain of instructions: as deep as Linux leaves room.
 */
static void main_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_STACK, &limit);
    }
}

int main(int argc, char **argv)
{
    struct request r;
    struct input in;
    mt_ptxtool_say_visibly();
    main_stack();
    int code = parse_arguments(argc, argv, &r);
    if (code >= 0) {
        return code;
    }
    if (r.cache_list || r.cache_clear) {
        return mt_ptxtool_cache(&r);
    }
    mt_cudabin_process_guard();
    if (r.serve) {
        return mt_ptxtool_serve(&r);
    }
    code = mt_ptxtool_input_read(r.input, &in);
    if (code == 0) {
        code = r.list ? mt_ptxtool_list(&in) : make_from(&r, &in);
    }
    mt_ptxtool_input_free(&in);
    mt_cudabin_temp_remove();
    return mt_cudabin_process_exit_code(code);
}
