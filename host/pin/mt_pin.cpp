/* Start and end of the Pin tool: knobs, the core, the writing thread. See docs/host-pin.md. */
#include "mt_pin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

REG mt_pin_register;
enum mt_core_mode mt_pin_mode;

/* ---- options ---- */

struct option {
    char letter;
    const char *name, *values, *help;
    BOOL list;
};
static const struct option options[] = {
#define MT_IS_LIST_STRING FALSE
#define MT_IS_LIST_NUMBER FALSE
#define MT_IS_LIST_POWER FALSE
#define MT_IS_LIST_SWITCH FALSE
#define MT_IS_LIST_LIST TRUE
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help)                                  \
    {letter, name, values, help, MT_IS_LIST_##kind},
#include "base/host_options.def"
};
#define OPTIONS (sizeof options / sizeof *options)

/* All knobs are words, parsed by the core as for the other engines. They append, so that a missing one has
 * no value. Pin keeps a list of all knobs for its own life. */
typedef KNOB<std::string> Knob;
static Knob *mode, *letters[OPTIONS], *names[OPTIONS];

static Knob *pin_knob(const std::string &name, const struct option *o)
{
    return new Knob(KNOB_MODE_APPEND, "pintool", name, "", std::string(o->help) + " (" + o->values + ")");
}

static VOID make_knobs(VOID)
{
    mode = new Knob(KNOB_MODE_WRITEONCE, "pintool", "mode", "mat", "what to trace: mat, atomic or insn");
    for (UINT32 i = 0; i < OPTIONS; i++) {
        names[i] = pin_knob(options[i].name, &options[i]);
        letters[i] = options[i].letter ? pin_knob(std::string(1, options[i].letter), &options[i]) : NULL;
    }
}

static VOID add_words(std::vector<std::string> &words, const struct option *o, Knob *k)
{
    for (UINT32 i = 0; k && i < k->NumberOfValues(); i++)
        words.push_back(std::string("--") + o->name + "=" + k->Value(i));
}

/* The words are never freed: the core keeps pointers into them. */
static struct mt_core_options *read_options(std::string *why)
{
    std::vector<std::string> &words = *new std::vector<std::string>;
    std::vector<char *> argv;
    static struct mt_core_options read;
    char text[512] = "";
    words.push_back(mode->Value());
    for (UINT32 i = 0; i < OPTIONS; i++) {
        add_words(words, &options[i], letters[i]);
        add_words(words, &options[i], names[i]);
    }
    for (std::string &w : words)
        argv.push_back(const_cast<char *>(w.c_str()));
    if (mt_core_options_parse(&read, (int)argv.size(), argv.data(), text, sizeof text) == 0)
        return &read;
    *why = text;
    return NULL;
}

/* ---- the writing thread ---- */

/* Only one is made, and only from main: Pin starts no internal thread later. */
static struct {
    void (*run)(void *);
    void *arg;
    UINT32 state; /* 1 started, 2 at its end */
} worker;

static VOID pin_work(VOID *)
{
    worker.run(worker.arg);
    __atomic_store_n(&worker.state, 2u, __ATOMIC_RELEASE);
}

static int pin_spawn(void (*run)(void *), void *arg, void **handle)
{
    const int again = 11; /* EAGAIN */
    if (worker.state)
        return again;
    worker.run = run;
    worker.arg = arg;
    if (PIN_SpawnInternalThread(pin_work, NULL, 0, NULL) == INVALID_THREADID)
        return again;
    worker.state = 1;
    *handle = &worker;
    return 0;
}

/* Waits ten seconds at most: when the process is torn down the thread may vanish without notice. */
static void pin_join(void *)
{
    for (UINT32 i = 0; i < 10000 && __atomic_load_n(&worker.state, __ATOMIC_ACQUIRE) != 2; i++)
        PIN_Sleep(1);
}

static void pin_yield(void)
{
    PIN_Yield();
}

/* ---- start and end ---- */

static VOID on_prepare(VOID *) /* internal threads still run */
{
    mt_core_stop(0);
}

static VOID on_end(INT32, VOID *)
{
    mt_core_stop(0);
}

/* Returns the command after "--" on Pin's command line. */
static const char *program_of(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return argv[i + 1];
    return NULL;
}

static int pin_fail(const std::string &why)
{
    fprintf(stderr, "memtrace: %s\n", why.c_str());
    return 2;
}

int main(int argc, char *argv[])
{
    static struct mt_core_engine engine;
    char text[512] = "";
    std::string why;
    make_knobs();
    PIN_InitSymbols();
    if (PIN_Init(argc, argv)) {
        fprintf(stderr,
                "usage: pin -t mt-host.so -mode mat|atomic|insn [OPTION VALUE]... -- PROGRAM "
                "[ARGUMENT]...\n\n%s\n",
                KNOB_BASE::StringKnobSummary().c_str());
        return 2;
    }
    struct mt_core_options *o = read_options(&why);
    if (!o)
        return pin_fail(why);
    mt_pin_mode = o->mode;
    mt_pin_register = PIN_ClaimToolRegister();
    if (!REG_valid(mt_pin_register))
        return pin_fail("Pin has no register left for the tool");
    engine.name = "pin";
    engine.program = program_of(argc, argv);
    engine.locate = mt_pin_locate;
    engine.plain = mt_pin_plain;
    engine.yield = pin_yield;
    engine.spawn = pin_spawn;
    engine.join = pin_join;
    if (mt_core_start(o, &engine, text, sizeof text) != 0)
        return pin_fail(text);
    mt_pin_threads_init(o);
    mt_pin_access_init();
    PIN_AddPrepareForFiniFunction(on_prepare, NULL);
    PIN_AddFiniFunction(on_end, NULL);
    PIN_StartProgram(); /* does not return */
    return 0;
}
