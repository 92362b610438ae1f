/* memtrace check: the command line, running programs, reading traces, suppressions and output. */
#define _GNU_SOURCE
#include "analysis/base/pairmap.h"
#include "base/part.h"
#include "base/run.h"
#include "analysis/check/memory.h"
#include "cli/base/pipeline.h"
#include "analysis/base/sites.h"
#include "analysis/onchip/hazards.h"
#include "analysis/onchip/suspects.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include "cli/base/commands.h"
#include "cli/base/kind.h"
#include "base/file.h"
#include "output/findings/findings_out.h"
#include "output/text/table.h"
#include "analysis/check/findings.h"
#include "cli/base/cli.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Kinds that are looked for with --strict, or if --kinds names them. */
#define KINDS_STRICT (1u << MT_FINDING_OF_LEFT | 1u << MT_FINDING_OF_SAME_WORD)

/* Chosen kinds of findings: a bit for each enum mt_finding_kind. */
struct mt_check_choice {
    uint32_t kinds;
    uint32_t named; /* those that --kinds names */
    int strict;     /* 1: what the memory model forbids although no GPU is known to mind */
};

static inline int check_wants(const struct mt_check_choice *c, enum mt_finding_kind kind)
{
    return c->kinds >> kind & 1;
}

/* How often the host was not watched, for one reason. */
struct check_unwatched {
    const char *why;
    uint64_t times;
};
enum { MOST_REASONS = 16 }; /* further ones of damaged traces are left out */

/* Findings in the traces of one or several programs. */
struct mt_check_answer {
    struct mt_findings findings; /* with copies of their texts */
    const char *program;         /* the first program; "": unknown */
    const char **notes;
    size_t nnotes, note_room;
    int complete; /* 1: all traces are complete, see mt_inputs_finish */
    int left;     /* 1: a trace has no end */
    int blind;    /* 1: threads share memory of which a trace has no records */
    int plain;    /* 1: launches were traced without MEMTRACE_CHECK */
    int only;     /* 1: a trace has totals in place of accesses */
    struct check_unwatched unwatched[MOST_REASONS];
    size_t nunwatched;
    const char *unwatched_words; /* the note of that, or NULL */
    uint64_t calls_left; /* calls that left work behind, in all programs in which the host was not watched */
};

/* ---- Source lines of the program's own calls that the compiler did not provide (nvcc): from return
 * addresses and the program's line tables. Only for a program that has just been run, since a trace may name
 * any file ---- */

#ifdef MT_WITH_ELF
#include "base/elffile.h"
#include <stdlib.h>
#include <string.h>

/* The most recently opened file: most addresses are in one program. */
struct opened {
    char *path;
    struct mt_elf *elf;
    const char *stub;         /* kernel of the previous address, if that was in a kernel's stub; or NULL */
    struct mt_pairmap allocs; /* allocations whose lines were looked up */
    int trusted;              /* 1: files may be opened */
    struct mt_finding_side launch[2]; /* the previous launch, before and after it was looked up */
};

static struct mt_elf *place_open(struct opened *o, const char *path, size_t n)
{
    if (!o->path || strlen(o->path) != n || strncmp(o->path, path, n) != 0) {
        free(o->path);
        o->path = strndup(path, n);
        o->elf = o->path ? mt_elf_open(o->path) : NULL; /* never closed, since this process ends soon */
    }
    return o->elf;
}

/* Returns 1 for files of CUDA's headers; their caller is meant. */
static int place_is_toolkit(const char *file)
{
    return strstr(file, "cuda_runtime") || strstr(file, "/crt/") || strstr(file, "/usr/include/") ||
           strstr(file, "device_launch") || strstr(file, ".cudafe1.stub.c") || strstr(file, "nvtx3/");
}

/* Returns 1 if both are in one file. Calls from another file, such as a library, are not meant. */
static int place_same(const char *a, const char *b)
{
    size_t n = (size_t)(strchrnul(a, '+') - a);
    return strncmp(a, b, n + 1) == 0;
}

/* Returns 1 for functions of CUDA's headers without line information: cudaMalloc<int> is instantiated in the
 * program. */
static int place_is_wrapper(const char *function)
{
    const char *name = function && strncmp(function, "_Z", 2) == 0 ? function + 2 : "";
    name += *name == 'L';
    name += *name >= '0' && *name <= '9' ? strspn(name, "0123456789") : strlen(name);
    return strncmp(name, "cuda", 4) == 0 || strncmp(name, "__cuda", 6) == 0;
}

/* Returns the name that a kernel and its stub share. */
static const char *place_stub(const char *function)
{
    static const char begin[] = "__device_stub_";
    const char *at = function ? strstr(function, begin) : NULL;
    return at ? at + strlen(begin) : NULL;
}

/* Returns 1 for the function with a kernel's name that calls its stub. */
static int place_is_kernel(const char *function, const char *stub)
{
    char one[512], other[512];
    return function && stub &&
           (strncmp(stub, function, strlen(function)) == 0 ||
            strcmp(mt_undecorate(function, one, sizeof one), mt_undecorate(stub, other, sizeof other)) == 0);
}

/* Finds the innermost line, also of inlined functions, that is not in CUDA's headers, nor in a kernel's stub
 * or the function that calls it. stub: of the calls further in, or NULL. */
static int place_line(struct mt_elf *elf, uint64_t address, const char *stub, struct mt_elf_location *l)
{
    struct mt_elf_location next;
    const char *function = NULL;
    int rc = mt_elf_line(elf, address, l);
    for (unsigned level = 0; rc == 0; level++) {
        rc = mt_elf_inlined(elf, address, level, &next, &function);
        if (rc != 0)
            function = mt_elf_function(elf, address);
        if (!place_is_toolkit(l->file) && !place_stub(function) && !place_is_kernel(function, stub))
            return 0;
        stub = place_stub(function) ? place_stub(function) : stub;
        *l = next;
    }
    return rc;
}

/* Returns 1 if the program's author wrote the function. */
static int place_is_own(const char *function, const char *stub)
{
    return function && !place_is_wrapper(function) && strcmp(function, "_start") != 0 &&
           !place_is_kernel(function, stub);
}

/* Looks up "path+0x12". Returns 0, -1 if it is unknown, or 1 for a kernel's stub. *own is 1 in a function of
 * the program's own. */
static int check_place_of(struct mt_findings *f, struct opened *o, const char *at,
                          struct mt_finding_side *side, int *own)
{
    const char *plus = strrchr(at, '+'), *stub = o->stub;
    struct mt_elf *elf = plus ? place_open(o, at, (size_t)(plus - at)) : NULL;
    struct mt_elf_location l;
    char path[4096];
    uint64_t address =
        elf ? strtoull(plus + 1, NULL, 16) - 1 : 0; /* a return address: the call is before it */
    const char *function = elf ? mt_elf_function(elf, address) : NULL;
    *own = place_is_own(function, stub);
    if ((o->stub = place_stub(function)))
        return 1;
    if (!elf || place_line(elf, address, stub, &l) != 0 || !l.line)
        return -1;
    snprintf(path, sizeof path, "%s%s%s", l.folder, *l.folder ? "/" : "", l.file);
    if (!(side->file = mt_findings_text(f, path, strlen(path))))
        return -1;
    side->line = l.line;
    return 0;
}

/* Finds the innermost call in the file's own code that has a line; without lines, the innermost one in a
 * function of its own. */
static void place_find(struct mt_findings *f, struct opened *o, struct mt_finding_side *s)
{
    char caller[4096];
    const char *at = s->at, *next = s->callers, *own = NULL;
    if ((s->file && *s->file) || !next || !at)
        return;
    for (o->stub = NULL; at; at = *next ? next : NULL) {
        size_t n = strcspn(at, "\n");
        int is_own = 0, rc = -1;
        snprintf(caller, sizeof caller, "%.*s", (int)n, at);
        if (place_same(s->at, caller))
            rc = check_place_of(f, o, caller, s, &is_own);
        if (rc == 0)
            return;
        own = rc < 0 && is_own && !own ? at : own;
        next += at == s->at ? 0 : n;
        next += strspn(next, "\n");
    }
    if (own && own != s->at && (own = mt_findings_text(f, own, strcspn(own, "\n"))))
        s->at = own;
}

/* ---- call stacks ---- */

enum { STACK_LINES = 16 };

struct place_stack { /* a text of findings.h that is being made */
    struct mt_findings *findings;
    char *text;
    size_t size;
    FILE *f;
    unsigned lines;
    struct mt_finding_side *side;
    const char *stub; /* the last stub of a kernel that was passed over */
    int passed;       /* 1: the line of the call itself was seen, so what follows are its callers */
    int ended;
};

static int place_is_last(const char *function)
{
    return function && (strcmp(function, "main") == 0 || strcmp(function, "_start") == 0 ||
                        strncmp(function, "__libc_start", 12) == 0);
}

/* Adds a frame; l: NULL if its line is not known. */
static void place_frame(struct place_stack *s, const struct mt_elf_location *l, const char *function)
{
    char path[4096] = "", room[512];
    const char *plain = function ? mt_undecorate(function, room, sizeof room) : "";
    if (place_stub(function) || place_is_kernel(function, s->stub)) {
        s->stub = place_stub(function) ? place_stub(function) : s->stub;
        return;
    }
    if ((l && place_is_toolkit(l->file)) || (!l && place_is_wrapper(function)))
        return;
    if (l)
        snprintf(path, sizeof path, "%s%s%s", l->folder, *l->folder ? "/" : "", l->file);
    s->ended = place_is_last(function) || s->lines == STACK_LINES || (!*path && !*plain);
    if (!s->passed) { /* the call itself */
        s->passed = 1;
        if (s->stub && *path && (s->side->file = mt_findings_text(s->findings, path, strlen(path))))
            s->side->line = l->line; /* a stub's place is the kernel's */
        return;
    }
    s->lines++;
    if (*path)
        fprintf(s->f, "%s%s:%u%s%s", s->lines > 1 ? "\n" : "", path, l->line, *plain ? " in " : "", plain);
    else if (*plain)
        fprintf(s->f, "%s%s", s->lines > 1 ? "\n" : "", plain);
}

/* Adds the frames at an address: the inlined functions around it, then the function itself. */
static void place_frames(struct place_stack *s, struct opened *o, const char *at)
{
    const char *plus = strrchr(at, '+'), *function = NULL, *outer = NULL;
    struct mt_elf *elf = plus ? place_open(o, at, (size_t)(plus - at)) : NULL;
    const uint64_t address = elf ? strtoull(plus + 1, NULL, 16) - 1 : 0; /* the call is before it */
    struct mt_elf_location l, next;
    int known = elf && mt_elf_line(elf, address, &l) == 0 && l.line;
    for (unsigned level = 0; elf && !s->ended; level++) {
        int inlined = mt_elf_inlined(elf, address, level, &next, &function) == 0;
        outer = inlined ? function : mt_elf_function(elf, address);
        place_frame(s, known ? &l : NULL, outer);
        if (!inlined)
            return;
        l = next;
        known = l.line != 0;
    }
    s->ended |= !elf;
}

/* Finds the callers of a call; its own line is not one of them. */
static void place_stack(struct mt_findings *f, struct opened *o, struct mt_finding_side *side)
{
    struct place_stack s = {.findings = f, .side = side};
    const char *next = side->callers;
    char at[4096];
    if (!side->at || !*side->at || !next || !strstr(side->at, "+0x"))
        return;
    if (!(s.f = open_memstream(&s.text, &s.size)))
        return;
    for (const char *now = side->at; now && !s.ended; now = *next ? next : NULL) {
        size_t n = strcspn(now, "\n");
        snprintf(at, sizeof at, "%.*s", (int)n, now);
        place_frames(&s, o, at);
        next += now == side->at ? 0 : n;
        next += strspn(next, "\n");
    }
    if (fclose(s.f) == 0 && s.lines)
        side->stack = mt_findings_text(f, s.text, s.size);
    free(s.text);
}

/* Finds line and callers of a call. */
static void place_call(struct mt_findings *f, struct opened *o, struct mt_finding_side *s)
{
    const int known = s->file && *s->file;
    if (o->trusted && !s->stack)
        place_stack(f, o, s);
    if (o->trusted)
        place_find(f, o, s);
    if (known && s->at && *s->at == '/') /* its address is for the stack alone */
        s->at = "";
}

/* Returns a copy of an allocation with its line and callers, made once for each. */
static const struct mt_alloc_event *place_alloc(struct mt_findings *f, struct opened *o,
                                                const struct mt_alloc_event *a)
{
    struct mt_finding_side s = {.file = a->file, .at = a->at, .callers = a->callers};
    uint64_t *made = !a->at || !*a->at || !a->callers || a->stack
                         ? NULL
                         : mt_pairmap_get(&o->allocs, (uint64_t)(uintptr_t)a, 0, 0);
    if (!made || *made)
        return made ? (const struct mt_alloc_event *)(uintptr_t)*made : a;
    s.line = a->line;
    place_call(f, o, &s);
    struct mt_alloc_event with = *a;
    with.file = s.file;
    with.line = s.line;
    with.at = s.at;
    with.callers = s.stack ? s.stack : "";
    with.stack = s.stack != NULL;
    const char *copy = mt_findings_text(f, (const char *)&with, sizeof with);
    *made = (uint64_t)(uintptr_t)(copy ? (const void *)copy : a);
    return (const struct mt_alloc_event *)(uintptr_t)*made;
}

/* Uninitialised words of one launch are many findings, one after the other: they are looked up once. */
static void place_launch(struct mt_findings *f, struct opened *o, struct mt_finding_side *s)
{
    if (memcmp(s, &o->launch[0], sizeof *s) != 0) {
        o->launch[0] = o->launch[1] = *s;
        place_call(f, o, &o->launch[1]);
    }
    *s = o->launch[1];
}

/* Finds lines and callers of calls; ran: 0 for a trace that names files which cannot be trusted. */
static void check_places(struct mt_findings *f, int ran)
{
    struct opened o = {.trusted = ran};
    for (size_t i = 0; i < f->count; i++) {
        struct mt_finding *x = &f->list[i];
        place_call(f, &o, &x->here);
        place_call(f, &o, &x->other);
        place_launch(f, &o, &x->launched);
        x->alloc = x->alloc && ran ? place_alloc(f, &o, x->alloc) : x->alloc;
    }
    mt_pairmap_free(&o.allocs);
    free(o.path);
}
#else
static void check_places(struct mt_findings *f, int ran)
{
}
#endif

/* ---- Suppressions: accepted findings. A line of the file is KIND [KERNEL [FILE]]. KIND is the word of a
 * kind or a group, or *; KERNEL and FILE are shell patterns for the whole name; # begins a comment ---- */

struct rule {
    char *kind, *kernel, *file; /* patterns to match; NULL: any */
};

static int suppress_text(const char *pattern, const char *text)
{
    return !pattern || strcmp(pattern, "*") == 0 || (text && fnmatch(pattern, text, 0) == 0);
}

static int suppress_kind(const char *kind, const struct mt_finding_rule *rule)
{
    return strcmp(kind, mt_finding_groups[rule->group]) == 0 || suppress_text(kind, rule->word);
}

static int suppress_match(const struct rule *r, const struct mt_finding *f)
{
    return suppress_kind(r->kind, &mt_finding_rules[f->kind]) && suppress_text(r->kernel, f->kernel) &&
           (suppress_text(r->file, f->here.file) || suppress_text(r->file, f->other.file));
}

static void suppress_apply(struct mt_findings *f, const struct rule *r, size_t *taken)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        if (!suppress_match(r, &f->list[i]))
            f->list[n++] = f->list[i];
    *taken += f->count - n;
    f->count = n;
}

static int suppress_known(const char *kind)
{
    const char *words[MT_FINDING_KINDS + 1] = {NULL};
    for (int i = 0; i < MT_FINDING_KINDS; i++)
        words[i] = mt_finding_rules[i].word;
    return strpbrk(kind, "*?[") != NULL || mt_cli_word(kind, words) >= 0 ||
           mt_cli_word(kind, mt_finding_groups) >= 0;
}

static int suppress_line(struct mt_findings *f, const char *path, unsigned number, char *line, size_t *taken)
{
    char *save;
    if (number == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0) /* byte order mark of some editors */
        line += 3;
    line[strcspn(line, "#")] = 0;
    for (size_t n = strlen(line); n && strchr(" \t\r\n", line[n - 1]);)
        line[--n] = 0;
    struct rule r = {.kind = strtok_r(line, " \t", &save)};
    if (!r.kind)
        return 0;
    r.kernel = strtok_r(NULL, " \t", &save);
    r.file = r.kernel ? strtok_r(NULL, "", &save) : NULL;
    if (!suppress_known(r.kind))
        return mt_cli_usage("%s:%u: '%s' is not a kind of finding", path, number, r.kind);
    while (r.file && (*r.file == ' ' || *r.file == '\t'))
        r.file++;
    suppress_apply(f, &r, taken);
    return 0;
}

/* Removes the findings that the file `path` lists (see the manual); *taken is their number. Returns 0, or an
 * exit code after a message. */
static int check_suppress(struct mt_findings *f, const char *path, size_t *taken)
{
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    int code = 0;
    if (!in)
        return mt_cli_refuse("%s: %s", path, strerror(errno));
    for (unsigned number = 1; code == 0 && getline(&line, &room, in) >= 0; number++)
        code = suppress_line(f, path, number, line, taken);
    if (code == 0 && ferror(in)) { /* opening a folder succeeds, reading does not */
        mt_cli_say("%s: cannot be read: %s", path, strerror(errno));
        code = MT_EXIT_USAGE;
    }
    free(line);
    fclose(in);
    return code;
}

/* ---- Running a program under `memtrace run` ---- */

/* Returns 1 if a kind of this group is chosen. */
static int check_wants_group(const struct mt_check_choice *c, enum mt_finding_group group)
{
    for (int i = 0; i < MT_FINDING_KINDS; i++)
        if (check_wants(c, (enum mt_finding_kind)i) && mt_finding_rules[i].group == group)
            return 1;
    return 0;
}

static void run_environment(const struct mt_check_choice *choice, int stop)
{
    static const char *const words[2][2] = {{"1", "stop"}, {"strict", "strict-stop"}};
    setenv("MEMTRACE_CHECK", words[(choice->kinds & KINDS_STRICT) != 0][stop != 0], 1);
    setenv("MEMTRACE_FORMAT", "compact", 1);
    setenv("MEMTRACE_ENABLE", "1", 1);
    setenv("MEMTRACE_PATTERN", "MemTrace-%p-pipe-?", 1); /* all processes of the program */
    setenv("MEMTRACE_QUIET", "1", 0);
    if (check_wants_group(choice, MT_FINDING_RACE))
        setenv("MEMTRACE_CPU_THREADS", "1", 0); /* gives the CTAs of a launch an order in the trace */
    else if (!check_wants_group(choice, MT_FINDING_INIT) && !check_wants_group(choice, MT_FINDING_USE))
        setenv("MEMTRACE_KERNELS", "!.", 0); /* the runtime makes these findings, without accesses */
}

/* Forwards a request to end to the program, unless the terminal has sent it to both. */
static void run_stopped(const struct mt_program_run *child)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (child->passed == ends[i] || child->ended == ends[i]) {
            mt_cli_note("signal %d: findings of the part that was traced follow", ends[i]);
            mt_stop_soon(ends[i]);
            return;
        }
}

/* Runs the program `argv`, with its trace in `folder`. *code: its exit code, as a shell reports it; *ended:
 * the signal that ended it, or 0. Returns 0, or an exit code after a message. */
static int check_run(char **argv, const char *folder, const struct mt_check_choice *choice, int stop,
                     int *code, int *ended)
{
    static char device[] = "-dcpu", shared[] = "--spaces=global,shared", global[] = "--spaces=global",
                end[] = "--", called[] = "memtrace check", command[] = "run";
    static char all[] = "--spaces=global,shared,local";
    char run[PATH_MAX], output[PATH_MAX + 16];
    size_t n = 0, at = 0;
    while (argv[n])
        n++;
    char **words = calloc(n + 9, sizeof *words);
    if (!words)
        return mt_cli_fail("no memory");
    struct mt_program_run child = {.path = run, .argv = words};
    int rc = mt_files_self(run, 0) ? mt_cli_fail("%s: %s", run, strerror(errno)) : 0;
    snprintf(output, sizeof output, "--output=%s", folder);
    words[at++] = called; /* gives the program our name for messages */
    words[at++] = command;
    words[at++] = device;
    words[at++] = output;
    words[at++] = check_wants(choice, MT_FINDING_OF_BOUNDS) ? all
                  : check_wants_group(choice, MT_FINDING_RACE) || check_wants(choice, MT_FINDING_OF_UNWRITTEN)
                      ? shared
                      : global;
    words[at++] = end;
    memcpy(words + at, argv, n * sizeof *words);
    run_environment(choice, stop);
    *code = rc ? 0 : mt_child_run(&child);
    *ended = child.ended;
    free(words);
    if (rc == 0 && *code < 0)
        return mt_cli_fail("%s: %s", run, strerror(child.why));
    if (rc == 0)
        run_stopped(&child);
    return rc;
}

/* ---- Reading the trace of a checked program ---- */

struct reading {
    struct mt_source *source;
    const struct mt_check_choice *choice;
    struct mt_findings *findings;
    struct mt_suspects suspects;
    struct mt_hazards hazards, fenced; /* fenced: what is left if fences are assumed */
    struct mt_check_memory memory;
    struct mt_progress progress;
    struct mt_feed feed;
    struct mt_sites sites;
    struct mt_site_table *tables; /* by input; made when its first launch begins */
    int races, bytes, init;       /* 1 for each group looked for */
};
static const char NO_MEMORY[] = "no memory for the trace's findings";

static int read_start(struct reading *r)
{
    r->init = check_wants_group(r->choice, MT_FINDING_INIT);
    r->races = check_wants_group(r->choice, MT_FINDING_RACE) || r->init;
    r->bytes = r->races || r->init || check_wants_group(r->choice, MT_FINDING_USE);
    mt_progress_init(&r->progress);
    r->tables = calloc(mt_source_inputs(r->source) + 1, sizeof *r->tables);
    return r->tables && mt_sites_init(&r->sites) == 0 ? 0 : -1;
}

static void check_read_end(struct reading *r)
{
    mt_progress_end(&r->progress);
    mt_feed_free(&r->feed);
    for (size_t i = 0; r->tables && i < mt_source_inputs(r->source); i++)
        mt_site_table_free(&r->tables[i]);
    free(r->tables);
    mt_sites_free(&r->sites);
    mt_hazards_free(&r->hazards);
    mt_hazards_free(&r->fenced);
}

/* ---- rows ---- */

/* Returns 0, or an exit code after a message. */
static int read_feed(struct mt_feed *f)
{
    int rc = mt_feed_read(f);
    return rc == MT_FEED_FAILED ? mt_cli_fail("%s", NO_MEMORY) : rc ? mt_feed_failed(f, rc) : 0;
}

static int read_sites_launch(void *self, const struct mt_run_launch *l)
{
    struct reading *r = self;
    struct mt_site_table *t = &r->tables[l->input];
    const struct mt_companion *c = mt_source_companion(r->source, l->input);
    if (c && !t->line && mt_sites_table(&r->sites, t, c->sites, c->nsites) != 0)
        return -1;
    r->suspects.sites = r->hazards.sites = r->fenced.sites = c ? t : NULL;
    return 0;
}

/* Comes before the rows that it informs. */
static const struct mt_analysis read_sites = {.needs = MT_NEEDS_SPACES, .launch = read_sites_launch};

/* Returns 1 if records of different CTAs are in no order. */
static int read_shuffled(const struct mt_source *s)
{
    for (size_t i = 0; i < mt_source_inputs(s); i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        if (c && c->workers > 1)
            return 1;
    }
    return 0;
}

static int check_read_rows(struct reading *r)
{
    struct mt_feed *f = &r->feed;
    *f = (struct mt_feed){.source = r->source, .progress = &r->progress};
    r->memory.findings = r->findings;
    if (r->races) {
        r->suspects.strict = r->choice->strict;
        r->suspects.shuffled = read_shuffled(r->source);
        mt_feed_add(f, &read_sites, r, NULL);
        mt_feed_add(f, &mt_suspects_analysis, &r->suspects, NULL);
    }
    if (r->bytes)
        mt_feed_add(f, &mt_check_memory_analysis, &r->memory, NULL);
    if (r->init)
        mt_feed_add(f, &mt_check_memory_shared_analysis, &r->memory, NULL);
    return read_feed(f);
}

/* Returns 1 if parts in the middle of the trace are lost, and barriers with them. */
static int read_has_holes(struct mt_source *s)
{
    size_t n;
    const struct mt_error *problems = mt_source_problems(s, &n);
    for (size_t i = 0; i < n; i++)
        if (problems[i].code == MT_E_CORRUPT)
            return 1;
    return 0;
}

/* Reads the trace again, to judge the words that may have races. Returns an exit code or 0. */
static int read_again(struct reading *r)
{
    struct mt_feed f = {.source = r->source, .again = 1};
    if (!r->suspects.launches.count || r->findings->holes)
        return 0;
    r->hazards = (struct mt_hazards){.words = 1, .strict = r->choice->strict, .suspects = &r->suspects};
    r->fenced = r->hazards;
    r->fenced.fenced = 1;
    mt_feed_add(&f, &read_sites, r, NULL);
    mt_feed_add(&f, &mt_hazards_analysis, &r->hazards, NULL);
    mt_feed_add(&f, &mt_hazards_analysis, &r->fenced, NULL);
    return read_feed(&f);
}

static int read_collect(struct reading *r)
{
    int rc = mt_check_events(r->findings, r->source);
    r->findings->unraced += r->suspects.unseen;
    if (rc == 0 && r->races)
        rc = mt_check_races(r->findings, &r->hazards, &r->fenced, r->source, &r->memory.buffers);
    return rc == 0 ? mt_check_early(r->findings) : rc;
}

/* Removes findings that were not chosen, and uninitialised reads if a write may be lost. */
static void read_choose(struct mt_findings *f, const struct mt_check_choice *choice)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        if (check_wants(choice, f->list[i].kind) &&
            !(f->holes && mt_finding_rules[f->list[i].kind].group == MT_FINDING_INIT))
            f->list[n++] = f->list[i];
    f->count = n;
}

/* Finds everything in the trace. Returns 0 or MT_EXIT_INPUT, with *complete as from mt_inputs_finish; or
 * another exit code after a message. `source` stays open, since it owns texts. ran: the program was just run.
 */
static int check_read(struct mt_source *source, const struct mt_check_choice *choice, int ran,
                      struct mt_findings *f, int *complete)
{
    struct reading r = {.source = source, .choice = choice, .findings = f};
    mt_findings_beside(f, source);
    int rc = read_start(&r), code = rc ? 0 : check_read_rows(&r);
    f->holes = read_has_holes(source);
    if (!rc && !code && r.races)
        code = read_again(&r);
    if (!rc && !code)
        rc = read_collect(&r);
    if (rc == 0 && !code)
        code = mt_inputs_finish(source, complete);
    check_read_end(&r);
    if (rc != 0)
        return mt_cli_fail("%s", NO_MEMORY);
    read_choose(f, choice);
    check_places(f, ran);
    mt_findings_finish(f);
    return code;
}

/* ---- Traces of one or several programs: each is read separately, since programs do not use each other's
 * memory, and then closed ---- */

struct taking {
    struct mt_check_answer *answer;
    struct mt_inputs *inputs;
    const struct mt_check_choice *choice;
};

static int answer_note(struct mt_check_answer *a, const char *text)
{
    if (mt_grow((void *)&a->notes, &a->note_room, a->nnotes + 1, sizeof *a->notes) != 0)
        return -1;
    a->notes[a->nnotes] = mt_findings_text(&a->findings, text, strlen(text));
    return a->notes[a->nnotes] ? (a->nnotes++, 0) : -1;
}

static int answer_notes(struct mt_check_answer *a, struct mt_source *s)
{
    size_t n;
    int known, rc = 0;
    const char *const *notes = mt_source_notes(s, &n, &known);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = answer_note(a, notes[i]);
    return rc;
}

/* Returns 1 if threads of this launch share memory of which there are no records. */
static int answer_blind(const struct mt_launch_event *l)
{
    return l->traced && !*l->library && !l->barriers && l->block[0] * l->block[1] * l->block[2] > 1;
}

/* Notes if barriers and shared memory, or what only MEMTRACE_CHECK adds, are missing. */
static void answer_spaces(struct mt_check_answer *a, const struct mt_source *s)
{
    int any = 0, blind = 0, plain = 0;
    for (size_t i = 0; i < mt_source_inputs(s); i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        a->left |= c && !c->has_end;
        a->only |= c && *c->only;
        for (size_t k = 0; c && k < c->nlaunches; k++) {
            any |= c->launches[k].others != 0;
            blind |= answer_blind(&c->launches[k]);
            plain |= c->launches[k].traced && !c->launches[k].op;
        }
    }
    a->blind |= blind && !any;
    a->plain |= plain;
}

static int answer_unwatched_by(struct mt_check_answer *a, const struct mt_unwatched_event *e)
{
    size_t i = 0;
    while (i < a->nunwatched && strcmp(a->unwatched[i].why, e->why) != 0)
        i++;
    if (i == MOST_REASONS)
        return 0;
    if (i == a->nunwatched && !(a->unwatched[i].why = mt_findings_text(&a->findings, e->why, strlen(e->why))))
        return -1;
    a->nunwatched += i == a->nunwatched;
    a->unwatched[i].times += e->times;
    return 0;
}

/* The companions of a process have the same lines. */
static int answer_unwatched(struct mt_check_answer *a, const struct mt_companion *c)
{
    int rc = 0;
    a->calls_left += c && c->nunwatched ? c->unwatched[0].of : 0;
    for (size_t i = 0; c && i < c->nunwatched && rc == 0; i++)
        rc = answer_unwatched_by(a, &c->unwatched[i]);
    return rc;
}

static int answer_add(struct mt_check_answer *a, struct mt_source *s, const struct mt_findings *f,
                      int complete)
{
    const struct mt_companion *c = mt_source_inputs(s) ? mt_source_companion(s, 0) : NULL;
    const char *program = c ? c->program : "";
    a->complete = !complete || !a->complete ? 0 : complete < a->complete ? complete : a->complete;
    answer_spaces(a, s);
    if (answer_unwatched(a, mt_findings_companion(f, s)) != 0)
        return -1;
    if (!*a->program && !(a->program = mt_findings_text(&a->findings, program, strlen(program))))
        return -1;
    return answer_notes(a, s) == 0 ? mt_findings_take(&a->findings, f) : -1;
}

static void check_answer_init(struct mt_check_answer *a)
{
    *a = (struct mt_check_answer){.program = "", .complete = 1};
}

static void check_answer_free(struct mt_check_answer *a)
{
    mt_findings_free(&a->findings);
    free((void *)a->notes);
}

/* Adds the findings of the inputs, or of the traces of all programs in a folder, as check_read does; `in`
 * then has only options. */
static int check_answer_read(struct mt_check_answer *a, struct mt_inputs *in,
                             const struct mt_check_choice *choice, int ran)
{
    struct mt_findings found = {0};
    int code, complete = 0;
    struct mt_source *s = mt_inputs_source(in, &code);
    if (s)
        code = check_read(s, choice, ran, &found, &complete);
    if (s && (code == 0 || code == MT_EXIT_INPUT) && answer_add(a, s, &found, complete) != 0)
        code = mt_cli_fail("no memory for the findings");
    mt_findings_free(&found);
    mt_source_close(s);
    return code;
}

static int answer_run(void *arg, const char *const *paths, size_t n)
{
    struct taking *t = arg;
    t->inputs->paths = paths;
    t->inputs->npaths = n;
    int code = check_answer_read(t->answer, t->inputs, t->choice, 1);
    t->inputs->npaths = 0;
    return code;
}

static int check_answer_folder(struct mt_check_answer *a, const char *folder, struct mt_inputs *in,
                               const struct mt_check_choice *choice)
{
    struct taking t = {a, in, choice};
    return mt_inputs_runs(folder, in->flags, answer_run, &t);
}

static const struct mt_command command = {
    .of = MT_OF_CHECK,
    .before =
        "Usage: memtrace check [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
        "       memtrace check [OPTION]... TRACE...\n"
        "Runs a CUDA program on the CPU device and reports its errors: accesses outside of buffers, "
        "uninitialised\nreads, races, failed calls, memory leaks. No GPU is needed.\n"
        "\n"
        "  memtrace check ./app                          as it is; python3 script.py, too\n"
        "  memtrace check -f sarif -o app.sarif ./app    for a pipeline: exit code 1 if there are findings\n"
        "  memtrace check --kinds race ./app             only races\n"
        "  memtrace check run-1                          findings of an existing trace (the newest in a "
        "folder)\n",
    .after = "Kinds of findings (memtrace-check(1) explains them):\n"
             "  memory  out-of-bounds, misaligned, use-after-free, stack, heap\n"
             "  calls   double-free, failed-call, failed-launch\n"
             "  init    uninitialised, uninitialised-copy\n"
             "  race    shared-race, global-race, unordered, host-race, same-word (hint)\n"
             "  sync    barrier, mask, left-out (hint)\n"
             "  use     hints: leak, unused, unread, unread-copy, unchanged-copy, tiny-copies\n"
             "\n"
             "Exit code: 1 errors or warnings; 2 wrong usage; else that of the program (for traces: 0, or 3 "
             "if one is\ndamaged or incomplete). Hints do not count.\n",
    .stops = 1,
};

enum format { TEXT, JSON, SARIF };
enum { KEPT_NAMED = 8 }; /* number of kept traces to name */

struct options {
    struct mt_inputs inputs;
    struct mt_filter filter;
    struct mt_check_choice choice;
    const char *output, *suppress, *keep;
    enum format format;
    int stop;
};

/* Parses "race,uninitialised": words of kinds and groups; ! excludes one. Returns 0, or MT_EXIT_USAGE after a
 * message. */
static int check_choose(struct mt_check_choice *c, const char *list)
{
    const char *words[MT_FINDING_KINDS + MT_FINDING_GROUPS + 2] = {NULL};
    int n = 0, first = 1;
    for (int i = 0; i < MT_FINDING_GROUPS; i++)
        words[n++] = mt_finding_groups[i];
    for (int i = 0; i < MT_FINDING_KINDS; i++)
        words[n++] = mt_finding_rules[i].word;
    words[n] = "all";
    for (; *list; first = 0) {
        int leave = *list == '!';
        size_t length = strcspn(list += leave, ",");
        int at = 0;
        while (words[at] && (strlen(words[at]) != length || strncmp(words[at], list, length) != 0))
            at++;
        if (!words[at]) {
            mt_cli_hint(list, length, words);
            return mt_cli_usage("'%.*s' is not a kind of finding", (int)length, list);
        }
        uint32_t bits = 0;
        for (int i = 0; i < MT_FINDING_KINDS; i++)
            if (at == n ||
                (at < MT_FINDING_GROUPS ? (int)mt_finding_rules[i].group == at : i == at - MT_FINDING_GROUPS))
                bits |= 1u << i;
        if (!leave && at >= MT_FINDING_GROUPS && at < n)
            c->named |= bits;
        c->kinds = leave ? c->kinds & ~bits : (first ? 0 : c->kinds) | bits;
        list += length + (list[length] == ',');
    }
    return c->kinds && !first ? 0 : mt_cli_usage("--kinds leaves nothing to look for");
}

static int check_option(void *arg, int o)
{
    static const char *const formats[] = {"text", "json", "sarif", NULL};
    struct options *x = arg;
    int format;
    switch (o) {
    case MT_OPT_FORMAT:
        if ((format = mt_cli_word(optarg, formats)) < 0)
            return mt_cli_usage("'%s' is not a format: text, json or sarif", optarg);
        x->format = (enum format)format;
        return 0;
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    case MT_OPT_KINDS:
        return check_choose(&x->choice, optarg);
    case MT_OPT_SUPPRESS:
        x->suppress = optarg;
        return 0;
    case MT_OPT_KEEP:
        x->keep = optarg;
        return 0;
    case MT_OPT_STOP:
        x->stop = 1;
        return 0;
    case MT_OPT_STRICT:
        x->choice.strict = 1;
        return 0;
    default:
        return mt_common_option(o, &x->inputs, &x->filter);
    }
}

/* ---- folder for the trace of a run ---- */

static int check_is_entry(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* Prints which traces were kept, beside those of earlier runs. */
static void check_kept(const char *keep, struct dirent *const *list, int n)
{
    int traces = 0;
    for (int i = 0; i < n; i++) {
        const char *end = strrchr(list[i]->d_name, '.');
        if (end && strcmp(end, ".mtc") == 0 && ++traces <= KEPT_NAMED)
            mt_cli_note("kept: %s/%s", keep, list[i]->d_name);
    }
    if (traces > KEPT_NAMED)
        mt_cli_note("kept: %d more traces in %s", traces - KEPT_NAMED, keep);
}

/* Moves the files of the folder to its parent, in which they are kept. */
static void check_move(const char *folder, const char *keep)
{
    struct dirent **list = NULL;
    int from = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC),
        to = open(keep, O_PATH | O_DIRECTORY | O_CLOEXEC),
        n = from >= 0 && to >= 0 ? scandir(folder, &list, check_is_entry, alphasort) : 0;
    for (int i = 0; i < n; i++)
        if (renameat(from, list[i]->d_name, to, list[i]->d_name) != 0)
            mt_cli_say("%s/%s: %s", keep, list[i]->d_name, strerror(errno));
    check_kept(keep, list, n);
    for (int i = 0; i < n; i++)
        free(list[i]);
    free((void *)list);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
}

/* Returns a temporary folder, inside the one to keep, to be freed; NULL after a message. */
static char *check_folder(const char *keep)
{
    const char *above = keep ? keep : getenv("TMPDIR");
    char *folder;
    struct stat st;
    if (keep && ((mkdir(keep, 0777) != 0 && errno != EEXIST) || stat(keep, &st) != 0)) {
        mt_cli_say("%s: %s", keep, strerror(errno));
        return NULL;
    }
    if (keep && !S_ISDIR(st.st_mode)) {
        mt_cli_say("%s: is not a folder", keep);
        return NULL;
    }
    if (asprintf(&folder, "%s/memtrace-check-XXXXXX", above && *above ? above : "/tmp") < 0)
        return NULL;
    if (!mkdtemp(folder)) {
        mt_cli_say("%s: cannot be created: %s; it holds the trace while the program runs: set TMPDIR to an "
                   "existing folder, or give --keep=FOLDER",
                   folder, strerror(errno));
        free(folder);
        return NULL;
    }
    if (!keep)
        mt_stop_scratch(folder);
    return folder;
}

/* ---- output ---- */

static void check_sum(const struct mt_findings *f, size_t suppressed)
{
    size_t errors = mt_findings_of(f, MT_FINDING_ERROR), warnings = mt_findings_of(f, MT_FINDING_WARNING),
           n = mt_findings_of(f, MT_FINDING_HINT);
    char more[80] = "", gone[64] = "";
    if (n)
        snprintf(more, sizeof more, ", %s", mt_number_many(n, "hint", "hints").text);
    if (suppressed)
        snprintf(gone, sizeof gone, ", %zu suppressed", suppressed);
    mt_cli_note("%s, %s%s%s", mt_number_many(errors, "error", "errors").text,
                mt_number_many(warnings, "warning", "warnings").text, more, gone);
    if (f->unraced)
        mt_cli_note("%s not judged for races: shared memory of other CTAs of a cluster, bytes of unknown "
                    "threads, or too much memory at a time",
                    mt_number_many(f->unraced, "access was", "accesses were").text);
    if (f->uncompared)
        mt_cli_note(
            "note: %s not compared completely with those beside them (unordered, host-race): too much "
            "memory at a time",
            mt_number_many(f->uncompared, "launch or copy was", "launches and copies were").text);
    if (f->holes)
        mt_cli_note("note: a part of the trace is lost, and what wrote or ordered may be, too: uninitialised "
                    "reads and races within launches were not looked for");
    if (f->unjudged)
        mt_cli_note("note: %s not recorded completely, so contents of memory were not checked after it",
                    mt_number_many(f->unjudged, "launch was", "launches were").text);
}

static int check_write(const struct options *x, const struct mt_findings *f,
                       const struct mt_findings_head *head, struct mt_output *out)
{
    static struct mt_json json;
    int rc, code = mt_output_ready(out);
    if (code)
        return code;
    if (x->format == TEXT) {
        int colours = !x->output && isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
        FILE *to = mt_output_stream(out);
        rc = to ? mt_findings_write_text(to, f, !mt_cli_brief, colours) : 0;
        code = to ? mt_output_close(out, to) : MT_EXIT_FAILURE;
    } else {
        mt_json_open(&json, out->fd);
        rc = mt_findings_write(&json, f, head, x->format != JSON);
        code = mt_output_json(out, &json);
    }
    return rc != 0 ? mt_cli_fail("no memory for the findings") : code;
}

/* Finds places of host code of which only the address is known. */
static void check_lines(const struct mt_findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct mt_finding_side *s = &f->list[i].here;
        if (s->at && strstr(s->at, "+0x") && !*s->file && !s->known) {
            mt_cli_note("note: host code has addresses but no lines: build with -g");
            return;
        }
    }
}

/* Gives a file of the run's own folder, PTX of a kernel, the name that it has after the run. Returns 1 if it
 * is one, -1 without memory. */
static int check_rename(struct mt_findings *f, const char *folder, const char *keep, const char **file)
{
    size_t n = strlen(folder);
    char path[PATH_MAX];
    if (!*file || strncmp(*file, folder, n) != 0 || (*file)[n] != '/')
        return 0;
    int length = snprintf(path, sizeof path, "%s%s%s", keep ? keep : "", keep ? "/" : "", *file + n + 1);
    *file = length < (int)sizeof path ? mt_findings_text(f, path, (size_t)length) : NULL;
    return *file ? 1 : -1;
}

/* Renames the files of kernels without lines of their own. Returns how many places they have, or -1 without
 * memory. */
static int check_rename_all(struct mt_findings *f, const char *folder, const char *keep)
{
    char real[PATH_MAX];
    int any = 0;
    folder = folder ? realpath(folder, real) : NULL;
    for (size_t i = 0; folder && i < f->count; i++) {
        int here = check_rename(f, folder, keep, &f->list[i].here.file),
            other = check_rename(f, folder, keep, &f->list[i].other.file);
        if (here < 0 || other < 0)
            return -1;
        any |= here | other;
    }
    return any;
}

static int check_tell_of(const struct options *x, struct mt_check_answer *a, const char *folder,
                         struct mt_output *out)
{
    size_t taken = 0;
    int ptx = check_rename_all(&a->findings, folder, x->keep);
    if (ptx < 0)
        return mt_cli_fail("%s", NO_MEMORY);
    mt_findings_finish(&a->findings);
    int code = x->suppress ? check_suppress(&a->findings, x->suppress, &taken) : 0;
    struct mt_findings_head head = {.program = a->program,
                                    .notes = a->notes,
                                    .nnotes = a->nnotes,
                                    .suppressed = taken,
                                    .complete = a->complete};
    if (code == 0)
        code = check_write(x, &a->findings, &head, out);
    if (code == 0)
        check_sum(&a->findings, taken);
    if (code == 0)
        check_lines(&a->findings);
    if (code == 0 && ptx)
        mt_cli_note("note: a kernel has lines of PTX only: build with nvcc -lineinfo%s",
                    x->keep ? "" : "; --keep=FOLDER keeps the PTX");
    return code;
}

static void check_spaces(const struct options *x, const struct mt_check_answer *a)
{
    if (a->only)
        mt_cli_note(
            "note: the trace has totals in place of accesses (memtrace run --only): accesses were not "
            "checked");
    if (a->blind && check_wants(&x->choice, MT_FINDING_OF_SHARED_RACE))
        mt_cli_note("note: the trace has no barriers and no accesses to shared memory: races of a CTA's "
                    "threads, and errors in shared memory, are not found (compile with mt-cc "
                    "--mt-spaces=global,shared)");
    if (a->plain)
        mt_cli_note(
            "note: the trace was made without MEMTRACE_CHECK=1, so bad accesses, failed calls and races "
            "between streams are not in it (memtrace check ./app runs the program with it)");
}

/* Notes how often the host was not watched. Returns 0, or -1 if out of memory. */
static int check_unwatched(const struct options *x, struct mt_check_answer *a)
{
    char why[1024] = "", text[1280];
    uint64_t times = 0;
    for (size_t i = 0, at = 0; i < a->nunwatched && at < sizeof why; i++) {
        times += a->unwatched[i].times;
        at += (size_t)snprintf(why + at, sizeof why - at, "%s%s (%llu)", i ? "; " : "", a->unwatched[i].why,
                               (unsigned long long)a->unwatched[i].times);
    }
    if (!times || !check_wants(&x->choice, MT_FINDING_OF_HOST_RACE))
        return 0;
    snprintf(text, sizeof text,
             "the host's accesses were not watched after %llu of the %llu calls that it did not wait for: %s",
             (unsigned long long)times, (unsigned long long)a->calls_left, why);
    a->unwatched_words = answer_note(a, text) == 0 ? a->notes[a->nnotes - 1] : NULL;
    return a->unwatched_words ? 0 : -1;
}

/* Warns of a program that ended by _exit: its trace has no end though its exit code is fine. */
static void check_left(const struct mt_check_answer *a, int status)
{
    if (a->left && status < 128)
        mt_cli_say("the program ended with code %d by _exit or quick_exit: its last accesses may be missing, "
                   "and leaks are not known",
                   status);
}

/* Checks the traces in a folder after a run that ended with `status`, or (NULL) the inputs. *found: 1 if
 * there are findings. */
static int check_traces(struct options *x, const char *folder, int status, struct mt_output *out, int *found)
{
    struct mt_check_answer a;
    int code = folder ? 0 : mt_inputs_folders(&x->inputs), told;
    check_answer_init(&a);
    if (folder)
        code = check_answer_folder(&a, folder, &x->inputs, &x->choice);
    else if (code == 0)
        code = check_answer_read(&a, &x->inputs, &x->choice, 0);
    if (code == 0 || code == MT_EXIT_INPUT) {
        check_spaces(x, &a);
        if (check_unwatched(x, &a) != 0)
            code = mt_cli_fail("%s", NO_MEMORY);
    }
    if (code == 0 || code == MT_EXIT_INPUT) {
        if (folder && code == MT_EXIT_INPUT)
            check_left(&a, status);
        code = (told = check_tell_of(x, &a, folder, out)) != 0 ? told : code;
        if (a.unwatched_words)
            mt_cli_note("note: %s", a.unwatched_words);
        *found = (code == 0 || code == MT_EXIT_INPUT) && (mt_findings_of(&a.findings, MT_FINDING_ERROR) ||
                                                          mt_findings_of(&a.findings, MT_FINDING_WARNING));
    }
    check_answer_free(&a);
    return code;
}

/* Returns 1 if a program has left a trace. */
static int check_any(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    int any = 0;
    while (d && (e = readdir(d)))
        any |= strncmp(e->d_name, "MemTrace-", 9) == 0;
    if (d)
        closedir(d);
    return any;
}

static int check_program(struct options *x, char **argv, struct mt_output *out, int *found)
{
    char *folder = check_folder(x->keep);
    int status = 0, ended = 0,
        code = folder ? check_run(argv, folder, &x->choice, x->stop, &status, &ended) : MT_EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN); /* so that the folder is removed in any case */
    if (code == 0 && check_any(folder)) {
        code = check_traces(x, folder, status, out, found);
        code = code == 0 || code == MT_EXIT_INPUT ? status : code;
    } else if (code == 0) {
        if (ended)
            mt_cli_say("%s ended by signal %d before it left a trace", argv[0], ended);
        else if (status == 0)
            mt_cli_say("%s launched no kernel, and made no call that can be checked", argv[0]);
        code = status;
    }
    if (folder && x->keep)
        check_move(folder, x->keep);
    if (folder) {
        mt_stop_scratch(NULL);
        mt_stop_remove(folder);
    }
    free(folder);
    return code;
}

/* Returns 1 for a file to read instead of a program to run. */
static int check_is_trace(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return 0;
    enum mt_kind kind = S_ISREG(st.st_mode) ? mt_kind_of(path) : MT_KIND_OTHER;
    return S_ISDIR(st.st_mode) || S_ISFIFO(st.st_mode) || kind == MT_KIND_TRACE || kind == MT_KIND_CONTAINER;
}

/* Protects the inputs: traces, or a program and its files. */
static void check_spare(struct options *x, int argc, char **argv, int traces)
{
    static char program[PATH_MAX];
    if (x->suppress)
        mt_output_spare(x->suppress);
    if (x->keep)
        mt_output_spare(x->keep);
    if (traces)
        mt_inputs_take(&x->inputs, argc, argv);
    if (!traces && mt_files_executable(argv[optind], program) == 0)
        mt_output_spare(program);
    for (int i = optind; !traces && i < argc; i++)
        mt_output_spare(argv[i]);
}

int mt_check_command(int argc, char **argv)
{
    static struct options x;
    struct mt_output out = {.fd = -1};
    int found = 0;
    mt_stop_begin();
    mt_filter_init(&x.filter);
    x.choice.kinds = (1u << MT_FINDING_KINDS) - 1;
    int code = mt_cli_options(&command, argc, argv, check_option, &x);
    x.inputs.flags |= MT_SOURCE_RUNS | MT_SOURCE_SPACES | MT_SOURCE_REWIND;
    if (code == 0 && optind == argc)
        code = mt_cli_usage("no program");
    if (!x.choice.strict)
        x.choice.kinds &= ~KINDS_STRICT | x.choice.named;
    int traces = code == 0 && check_is_trace(argv[optind]);
    if (code == 0)
        check_spare(&x, argc, argv, traces);
    if (code == 0)
        code = mt_output_open(&out, x.output);
    if (code == 0 && x.suppress) { /* errors in it are reported before the program runs */
        struct mt_findings none = {0};
        size_t taken = 0;
        code = check_suppress(&none, x.suppress, &taken);
    }
    if (code == 0)
        code =
            traces ? check_traces(&x, NULL, 0, &out, &found) : check_program(&x, argv + optind, &out, &found);
    mt_output_abandon(&out);
    mt_filter_free(&x.filter);
    mt_inputs_free(&x.inputs);
    return code < 0 ? MT_EXIT_OK : found ? 1 : code;
}
