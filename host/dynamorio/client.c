/* Start and end of the client: options, the core, the writing thread. */
#define _GNU_SOURCE
#include "client.h"
#include "platform.h"
#include "../machine/follow.h"
#include "../machine/guest.h"
#include "../machine/modules.h"
#include "../machine/sequence.h"
#include "base/elffile.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct mt_client mt_client;

enum { WORDS = 64 };
enum { LOCKS = 64 }; /* the default of --locks */

/* ---- options: words after the client's name, in which memtrace host writes %XX for all but letters, digits
 * and some signs ---- */

static int client_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static char *client_word(const char *given)
{
    char *word = strdup(given), *to = word;
    for (const char *at = given; to && *at; at++) {
        int high = *at == '%' ? client_digit(at[1]) : -1, low = high >= 0 ? client_digit(at[2]) : -1;
        *to++ = low >= 0 ? (char)(high << 4 | low) : *at;
        at += low >= 0 ? 2 : 0;
    }
    if (to)
        *to = 0;
    return word;
}

/* MODE --option=value … [follow=MT-HOST] */
static int client_options(int argc, const char **argv, char *why, unsigned size)
{
    static char *word[WORDS];
    const char *host = NULL;
    int n = 0;
    for (int i = 1; i < argc; i++) {
        char *w = n < WORDS ? client_word(argv[i]) : NULL;
        if (!w)
            return snprintf(why, size, "too many options for the client"), -1;
        if (strncmp(w, "follow=", 7) == 0)
            host = w + 7;
        else
            word[n++] = w;
    }
    if (n == 0)
        return snprintf(why, size, "the client has no options: run memtrace host --engine=dynamorio"), -1;
    if (mt_core_options_parse(&mt_client.options, n, word, why, size) != 0)
        return -1;
    mt_follow_start(host, "dynamorio", word, n, &mt_client.options);
    return 0;
}

/* ---- the writing thread ---- */

static struct {
    void (*run)(void *);
    void *arg;
    uint32_t state; /* 0 not started, 1 started, 2 at its end */
    pid_t process;  /* DynamoRIO makes its threads processes of their own in this memory */
    void *context;
} worker;

/* Ends the worker with the program: SIGKILL ends the program's process but not this one, which would hold
 * its pipes open. */
static void client_idle(void)
{
    if ((process_id_t)getppid() != mt_client.process)
        syscall(SYS_exit_group, 0);
}

static void client_work(void *arg)
{
    (void)arg;
    /* It holds the core's locks; a thread of the program may wait for them where DynamoRIO would wait for
     * it. */
    dr_client_thread_set_suspendable(false);
    mt_process_ctype();
    worker.context = dr_get_current_drcontext();
    worker.process = (pid_t)syscall(SYS_gettid);
    worker.run(worker.arg);
    __atomic_store_n(&worker.state, 2u, __ATOMIC_RELEASE);
    /* A thread that ends while DynamoRIO ends the process makes it wait for ever, so client_join ends it. */
    dr_client_thread_set_suspendable(true);
    for (;;) {
        client_idle();
        dr_sleep(1000);
    }
}

static uint32_t running; /* 1: the program's first code has been seen */

static void client_begin(void)
{
    uint32_t none = 0;
    if (running && worker.run &&
        __atomic_compare_exchange_n(&worker.state, &none, 1u, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
        !dr_create_client_thread(client_work, NULL))
        __atomic_store_n(&worker.state, 0u, __ATOMIC_RELEASE);
}

/* Takes note only, before the program runs: a thread made then may start without data that DynamoRIO
 * needs. */
static int client_spawn(void (*run)(void *), void *arg, void **handle)
{
    if (worker.run)
        return EAGAIN;
    worker.run = run;
    worker.arg = arg;
    *handle = &worker;
    client_begin();
    return 0;
}

void mt_client_worker(void)
{
    running = 1;
    client_begin();
}

/* Waits ten seconds at most: when the process is torn down the thread may vanish without notice. */
static void client_join(void *handle)
{
    (void)handle;
    if (!__atomic_load_n(&worker.state, __ATOMIC_ACQUIRE)) { /* there was none */
        worker.run(worker.arg);
        return;
    }
    for (unsigned i = 0; i < 10000 && __atomic_load_n(&worker.state, __ATOMIC_ACQUIRE) != 2; i++)
        mt_plat_sleep_ns(1000000);
    /* It would outlive an exec and a fatal signal, with the program's pipes open. */
    if (worker.process > 0 && kill(worker.process, SIGKILL) == 0)
        waitpid(worker.process, NULL, __WALL);
}

static void client_yield(void)
{
    void *drcontext = dr_get_current_drcontext();
    if (drcontext && drcontext == worker.context) /* it may wait for a thread that is gone */
        client_idle();
    dr_thread_yield();
}

/* ---- start and end ---- */

static void client_exit(void)
{
    if (!mt_client.forked && (process_id_t)mt_plat_pid() == mt_client.process)
        mt_core_stop(0);
    mt_insert_stop();
    mt_leave_stop();
    drwrap_exit();
    drutil_exit();
    drreg_exit();
    drmgr_exit();
}

static void client_module(void *drcontext, const module_data_t *info, bool loaded)
{
    (void)drcontext, (void)loaded;
    mt_modules_look((uint64_t)(uintptr_t)info->start);
    mt_functions_wrap();
}

static struct mt_core_engine engine = {.name = "dynamorio",
                                       .locate = mt_modules_locate,
                                       .plain = mt_elf_variable,
                                       .sequence = mt_sequence,
                                       .yield = client_yield,
                                       .spawn = client_spawn,
                                       .join = client_join,
                                       .idle = client_idle};

/* Searches PATH. */
static const char *client_found(const char *word)
{
    static char path[4096];
    const char *at = getenv("PATH");
    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        int got = snprintf(path, sizeof path, "%.*s/%s", (int)n, at, word);
        if (got > 0 && (size_t)got < sizeof path && access(path, X_OK) == 0)
            return path;
    }
    return word;
}

/* Returns the first word of the command line: DynamoRIO knows only the resolved path. */
static const char *client_called(void)
{
    static char word[4096];
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(word, 1, sizeof word - 1, f) : 0;
    word[n] = 0;
    if (f)
        fclose(f);
    return strchr(word, '/') ? word : client_found(word);
}

static int client_core(int argc, const char **argv, char *why, unsigned size)
{
    static char program[4096];
    module_data_t *main = dr_get_main_module();
    if (main && main->full_path)
        snprintf(program, sizeof program, "%s", main->full_path);
    dr_free_module_data(main);
    engine.program = *program ? program : NULL;
    engine.called = client_called();
    mt_follow_program(engine.program);
    if (client_options(argc, argv, why, size) != 0)
        return -1;
    /* A user who requests so many locks gets them. */
    mt_client.mode = mt_client.options.mode;
    engine.insn_turns = 1;
    engine.addresses_late = !mt_client.options.test && mt_client.options.locks == LOCKS;
    mt_client.turns =
        mt_client.options.container &&
        (mt_client.mode == MT_CORE_INSN || (mt_client.mode == MT_CORE_ATOMIC && engine.addresses_late));
    engine.addresses_late &= mt_client.turns;
    if (mt_client.turns)
        mt_turn_start();
    if (mt_core_start(&mt_client.options, &engine, why, size) != 0)
        return -1;
    mt_modules_start(engine.program, &mt_client.options,
                     mt_client.mode == MT_CORE_MAT || mt_client.options.container ||
                         mt_client.options.others == MT_CODE_DATA,
                     mt_functions_found);
    return 0;
}

DR_EXPORT void dr_client_main(client_id_t id, int argc, const char *argv[])
{
    static char why[512];
    drreg_options_t registers = {sizeof registers, 6, false, NULL, false};
    (void)id;
    /* Completes DynamoRIO's message after a crash: "memtrace internal crash … Please report this at", and
     * then: */
    dr_set_client_name("memtrace", "the place that you have memtrace from; without DynamoRIO: memtrace host "
                                   "--engine=qemu");
    drwrap_set_global_flags(DRWRAP_SAFE_READ_ARGS | DRWRAP_NO_FRILLS | DRWRAP_FAST_CLEANCALLS);
    if (!drmgr_init() || drreg_init(&registers) != DRREG_SUCCESS || !drutil_init() || !drwrap_init()) {
        dr_fprintf(STDERR, "memtrace: DynamoRIO's extensions do not start\n");
        dr_abort_with_code(1);
    }
    if (client_core(argc, argv, why, sizeof why) != 0) {
        dr_fprintf(STDERR, "memtrace: %s\n", why);
        dr_abort_with_code(1);
    }

    mt_client.process = dr_get_process_id();
    mt_process_start();
    mt_insert_start();
    drmgr_register_module_load_event(client_module);
    drmgr_register_exit_event(client_exit);
}
