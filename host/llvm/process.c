/* Start: MEMTRACE_HOST selects what is traced. */
#include "entry.h"
#include "base/thread.h"
#include "base/options.h"
#include "base/report.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Location of a call that allocates: set by the pass just before it, or at least its module and symbol. */
static int mt_locate(uint64_t ip, struct mt_core_location *place)
{
    const struct mt_host_alloc_location *known = mt_self.place;
    Dl_info info = {0};
    *place = (struct mt_core_location){0};
    int found = dladdr((void *)(uintptr_t)ip, &info) != 0;
    if (found && info.dli_fname)
        snprintf(place->module, sizeof place->module, "%s", info.dli_fname);
    if (known) {
        snprintf(place->file, sizeof place->file, "%s", known->file);
        snprintf(place->function, sizeof place->function, "%s", known->function);
        place->line = known->line;
        place->column = known->column;
    } else if (found && info.dli_sname) {
        snprintf(place->function, sizeof place->function, "%s", info.dli_sname);
    }
    return known || found ? 0 : -1;
}

/* ---- Global variables of the program, from its file and load address ---- */

/* Takes the first object, which is the program. */
static int globals_first(struct dl_phdr_info *info, size_t size, void *first)
{
    (void)size;
    *(struct dl_phdr_info *)first = *info;
    return 1;
}

/* Gives the program's variables to mt_core_globals. No code of the program has run yet. */
static void globals_put(void)
{
    struct dl_phdr_info program = {0};
    Dl_info known = {0};
    const char *path = "/proc/self/exe";
    dl_iterate_phdr(globals_first, &program);
    /* No interpreter in the process: the dynamic linker was started with the program's name. */
    if (!getauxval(AT_BASE) && dladdr(program.dlpi_phdr, &known) && known.dli_fname)
        path = known.dli_fname;
    mt_core_globals(path, program.dlpi_addr);
}

/* Returns the source spelling of a symbol: `room` or `symbol`. */
static const char *globals_name(const char *symbol, char *room, unsigned size)
{
    static char *(*demangle)(const char *, char *, size_t *, int *);
    int status = -1;
    if (strncmp(symbol, "_Z", 2) != 0)
        return symbol;
    if (!demangle) /* a program with such names usually has the C++ library */
        *(void **)&demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    char *plain = demangle ? demangle(symbol, NULL, NULL, &status) : NULL;
    if (plain && status == 0)
        snprintf(room, size, "%s", plain);
    free(plain);
    return status == 0 ? room : symbol;
}

#define MAX_WORDS 256

static struct mt_core_options options;

/* Splits `text` into words at blanks; a backslash quotes the next character. Returns -1 if there are too
 * many. */
static int process_split(char *text, char **word, int room)
{
    int n = 0;
    for (char *in = text, *out = text;;) {
        while (isspace((unsigned char)*in))
            in++;
        if (!*in)
            return n;
        if (n == room)
            return -1;
        word[n++] = out = in;
        while (*in && !isspace((unsigned char)*in)) {
            if (*in == '\\' && in[1])
                in++;
            *out++ = *in++;
        }
        in += *in != 0;
        *out = 0;
    }
}

struct thread_start {
    void (*run)(void *);
    void *arg;
};

static void *run_thread(void *start)
{
    struct thread_start s = *(struct thread_start *)start;
    mt_self.ours = 1;
    free(start);
    s.run(s.arg);
    return NULL;
}

/* Starts a thread of the core, which gets no signals of the program. */
static int process_spawn(void (*run)(void *), void *arg, void **handle)
{
    pthread_t *thread = malloc(sizeof *thread);
    struct thread_start *s = malloc(sizeof *s);
    int rc = thread && s ? 0 : ENOMEM;
    if (!rc) {
        *s = (struct thread_start){run, arg};
        rc = mt_base_thread_start(thread, 0, run_thread, s);
    }
    if (rc) {
        free(thread);
        free(s);
        return rc;
    }
    *handle = thread;
    return 0;
}

static void process_join(void *handle)
{
    pthread_join(*(pthread_t *)handle, NULL);
    free(handle);
}

static void process_report(const char *line)
{
    mt_report("%s", line);
}

static struct mt_core_engine engine = {.name = "llvm",
                                       .locate = mt_locate,
                                       .plain = globals_name,
                                       .sequence = mt_llvm_sequence,
                                       .spawn = process_spawn,
                                       .join = process_join,
                                       .report = process_report,
                                       .marks = 1,
                                       .places = 1};

/* Reads settings like the CUDA runtime, which reports bad ones if present. */
static const char *from_environment(const char *name, void *context)
{
    (void)context;
    return secure_getenv(name);
}

static void process_complain(const char *line, void *context)
{
    (void)context;
    if (!dlsym(RTLD_DEFAULT, "mt_runtime_version"))
        mt_report("%s", line);
}

/* Returns 0, or -1 if nothing is traced (reported if it is an error). */
static int read_options(const struct mt_options *env)
{
    char *word[MAX_WORDS], why[512], *text;
    int n;
    if (!env->enable || !strcmp(env->host, "off"))
        return -1;
    if (*env->host) {
        text = strdup(env->host);
        unsetenv("MEMTRACE_HOST"); /* hidden from the program and those it starts: one file, one trace */
    } else if (asprintf(&text, "mat") < 0)
        text = NULL;
    n = text ? process_split(text, word, MAX_WORDS - 2) : -1;
    if (n > 0 && !*env->host) {
        char *path;
        if (asprintf(&path, "%s/MemTrace-host.mtc", env->dir) < 0)
            return -1;
        word[n++] = "-o";
        word[n++] = path; /* kept */
    }
    if (n < 0) {
        mt_report("MEMTRACE_HOST: too many options; the host is not traced");
        return -1;
    }
    if (mt_core_options_parse(&options, n, word, why, sizeof why)) {
        mt_report("MEMTRACE_HOST: %s; the host is not traced", why);
        return -1;
    }
    if (options.mode == MT_CORE_INSN) {
        mt_report(
            "MEMTRACE_HOST: mode insn is not for programs built with mt-cc --host, which know no machine "
            "instructions: use mat or atomic, or memtrace host insn --engine=qemu; the host is not traced");
        return -1;
    }
    return 0;
}

__attribute__((constructor(101))) static void process_start(void)
{
    struct mt_options env;
    char why[512];
    mt_self.busy++;
    mt_options_parse(&env, from_environment, process_complain, NULL);
    if (read_options(&env))
        goto off;
    mt_llvm_sequence_open();
    mt_atomic = options.mode == MT_CORE_ATOMIC;
    if (mt_threads_open()) {
        mt_report("no thread-specific data is left; the host is not traced");
        goto off;
    }
    engine.called = (const char *)getauxval(AT_EXECFN);
    if (mt_core_start(&options, &engine, why, sizeof why)) {
        mt_report("%s; the host is not traced", why);
        goto off;
    }
    globals_put();
    mt_exit_open();
    mt_phase = MT_PHASE_ON;
    mt_signals_open(options.signal);
    mt_self.busy--;
    return;
off:
    mt_phase = MT_PHASE_OFF;
    mt_self.busy--;
}
