/* mt-ptx: the command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "llvm-pass/unit/options.h"
#include "base/create.h"
#include "base/command.h"
#include "base/near.h"
#include "base/say.h"
#include "linker.h"
#include "mt-ptx.h"

static const struct mt_command command = {
    .of = MT_OF_PTX,
    .before =
        "Usage: mt-ptx [OPTION]... INPUT -o IMAGE\n"
        "Makes a CPU image of device code that another compiler has turned into PTX. Programs that memtrace "
        "traces\n"
        "call it; INPUT is PTX as text, a fatbin, or an object, library or program with fatbins in it.\n",
    .after = "--mt-KEY=VALUE is an option of the pass, as mt-cc has them: kernels, exclude, only, vectors, "
             "count, cpu.\n"
             "Exit code: 0 fine, 1 failure, 2 wrong usage.\n",
};

static const char *const formats[] = {"image", "ir", NULL};

/* --mt-KEY=VALUE goes to the pass, and out of argv. 0, or 2. */
static int take_pass_options(int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        const char *why = NULL;
        if (strncmp(argv[i], "--mt-", 5) != 0) {
            argv[kept++] = argv[i];
        } else if (mt_pass_option_set(argv[i] + 5, &why) != 0) {
            return mt_cli_refuse("%s: %s", argv[i], why);
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
        return mt_cli_usage("%s is not the number of a module", word);
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
        return mt_cli_usage("%s is not a size: 256K and so on, or off", word);
    }
    return 0;
}

static int main_format(struct request *r, const char *word)
{
    const char *near = mt_near_word(word, strlen(word), formats);
    r->emit_ir = strcmp(word, "ir") == 0;
    if (r->emit_ir || strcmp(word, "image") == 0) {
        return 0;
    }
    return near ? mt_cli_usage("did you mean --format=%s?", near)
                : mt_cli_usage("%s is not a format: image or ir", word);
}

static int main_option(void *arg, int o)
{
    struct request *r = arg;
    switch (o) {
    case MT_OPT_OUTPUT:
        r->output = optarg;
        return 0;
    case MT_OPT_FORMAT:
        return main_format(r, optarg);
    case MT_OPT_EMIT_IR:
        r->emit_ir = 1;
        return 0;
    case MT_OPT_LIST:
        r->list = 1;
        return 0;
    case MT_OPT_MODULE:
        return parse_number(optarg, &r->number);
    case MT_OPT_SERVE:
        r->serve = 1;
        return 0;
    case MT_OPT_BASE:
        r->base = 1;
        return 0;
    case MT_OPT_KERNEL:
        r->kernel = optarg;
        return 0;
    case MT_OPT_DIVIDE:
        return parse_size(optarg, &r->divide);
    case MT_OPT_MEMORY_LIMIT:
        return parse_size(optarg, &mt_ptxtool_limit);
    case MT_OPT_CACHE:
        r->cache = optarg;
        return 0;
    case MT_OPT_CACHE_KEY:
        r->cache_key = optarg;
        return 0;
    case MT_OPT_CACHE_LIMIT:
        r->cache_limit = strtoull(optarg, NULL, 10);
        return 0;
    case MT_OPT_CACHE_LIST:
        r->cache_list = 1;
        return 0;
    case MT_OPT_CACHE_CLEAR:
        r->cache_clear = 1;
        return 0;
    default: /* --verbose, --quiet */
        r->verbose = mt_pass_options.verbose = o == MT_OPT_VERBOSE;
        return 0;
    }
}

/* -1: go on; otherwise the exit code. */
static int parse_arguments(int argc, char **argv, struct request *r)
{
    *r = (struct request){.number = -1};
    int code = take_pass_options(&argc, argv);
    code = code ? code : mt_command_options(&command, argc, argv, main_option, r);
    if (code) {
        return code < 0 ? mt_near_told() : code;
    }
    if (r->serve || r->cache_list || r->cache_clear) {
        return optind < argc ? mt_cli_usage("%s is too much here", argv[optind]) : -1;
    }
    if (optind + 1 != argc) {
        return mt_cli_usage("%s", optind == argc ? "no input" : "more than one input");
    }
    r->input = argv[optind];
    if (!r->output && r->emit_ir) {
        r->output = "-";
    }
    if (r->output && mt_output_is_input(r->output, r->input)) {
        return mt_cli_usage("the output %s is the input", r->output);
    }
    return r->output || r->list ? -1 : mt_cli_usage("%s", "no -o IMAGE");
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
        fprintf(stderr, "memtrace: %s has PTX of %u modules: choose with --module=N (--list names them)\n",
                in->name, have);
    } else if (in->n) {
        fprintf(
            stderr,
            "memtrace: %s has machine code alone here, no PTX (--list names its kernels): compile it with "
            "-gencode=arch=compute_90,code=compute_90\n",
            in->name);
    } else {
        fprintf(stderr, "memtrace: %s has no device code\n", in->name);
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
    if (mt_ptxtool_linker && argc > 1 && strcmp(argv[1], MT_PTX_LINKER) == 0) {
        return mt_ptxtool_linker(argc - 1, (const char *const *)argv + 1);
    }
    mt_cli_name = "mt-ptx";
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
    mt_ptxtool_say_signals(r.kernel);
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
