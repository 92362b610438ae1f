/* Parses the runtime's settings. Environment variables are copied when the process begins and parsed at first
 * use. */
#include "options.h"
#include "report.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Environment of this process, and a copy of its initial state ---- */

static char *nothing[1], **begun = nothing;
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

/* Copies the environment to memory of our own, since the program may overwrite its block. */
static void environment_take(void)
{
    size_t n = 0, bytes = 0;
    for (; environ && environ[n]; n++)
        bytes += strlen(environ[n]) + 1;
    bytes += (n + 1) * sizeof *begun;
    /* mmap, because the program's malloc may not be ready yet. */
    char **copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *text = (char *)(copy + n + 1);
    if (copy == MAP_FAILED)
        return;
    for (size_t i = 0; i < n; i++) {
        copy[i] = text;
        text = stpcpy(text, environ[i]) + 1;
    }
    copy[n] = NULL;
    begun = copy;
}

/* Runs before main, and before the constructors of libraries that depend on this one. */
__attribute__((constructor(101))) static void environment_loaded(void)
{
    pthread_once(&environment_once, environment_take);
}

char *const *mt_environment(void)
{
    pthread_once(&environment_once, environment_take);
    return begun;
}

const char *mt_environment_get(const char *name)
{
    const char *now = secure_getenv(name);
    size_t n = strlen(name);
    if ((now && *now) || getauxval(AT_SECURE))
        return now;
    for (char *const *e = mt_environment(); *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return now;
}

struct parse {
    const char *(*get)(const char *, void *);
    void (*complain)(const char *, void *);
    void *ctx;
};

/* Parses a number: "64K" is 65536. Returns -1 if it is malformed or too large. */
static int options_number(const char *s, uint64_t *out)
{
    if (*s < '0' || *s > '9')
        return -1;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    unsigned shift = *end == 'K' || *end == 'k'   ? 10
                     : *end == 'M' || *end == 'm' ? 20
                     : *end == 'G' || *end == 'g' ? 30
                                                  : 0;
    if (errno || end[shift ? 1 : 0] || v > UINT64_MAX >> shift)
        return -1;
    *out = v << shift;
    return 0;
}

static int options_in_range(const char *s, const char *values, uint64_t *out)
{
    char low[32];
    const char *dots = strstr(values, "..");
    uint64_t lo = 0, hi = 0;
    snprintf(low, sizeof low, "%.*s", (int)(dots - values), values);
    options_number(low, &lo);
    options_number(dots + 2, &hi);
    return options_number(s, out) || *out < lo || *out > hi ? -1 : 0;
}

/* Finds the index of `s` among words separated by '|'. */
static int options_choice(const char *s, const char *values, unsigned *out)
{
    size_t n = strlen(s);
    for (unsigned i = 0;; i++) {
        size_t len = strcspn(values, "|");
        if (len == n && !memcmp(s, values, n)) {
            *out = i;
            return 0;
        }
        if (!values[len])
            return -1;
        values += len + 1;
    }
}

static const char *options_given(const struct parse *p, const char *name)
{
    const char *s = p->get(name, p->ctx);
    return s && *s ? s : NULL;
}

static void options_refuse(const struct parse *p, const char *name, const char *value, const char *values,
                           const char *def)
{
    char line[512];
    snprintf(line, sizeof line, "%s=%.200s is not understood (wanted: %s); using %s", name, value, values,
             *def ? def : "nothing");
    p->complain(line, p->ctx);
}

static void take_STRING(const struct parse *p, const char **out, const char *name, const char *def,
                        const char *values)
{
    const char *s = options_given(p, name);
    *out = s ? s : def;
}

static void take_NUMBER(const struct parse *p, uint64_t *out, const char *name, const char *def,
                        const char *values)
{
    const char *s = options_given(p, name);
    if (s && !options_in_range(s, values, out))
        return;
    if (s)
        options_refuse(p, name, s, values, def);
    options_in_range(def, values, out);
}

static void take_CHOICE(const struct parse *p, unsigned *out, const char *name, const char *def,
                        const char *values)
{
    const char *s = options_given(p, name);
    if (s && !options_choice(s, values, out))
        return;
    if (s)
        options_refuse(p, name, s, values, def);
    options_choice(def, values, out);
}

static void take_SWITCH(const struct parse *p, unsigned *out, const char *name, const char *def,
                        const char *values)
{
    take_CHOICE(p, out, name, def, values);
}

/* Checks that a pattern names one file in the folder for each stream. */
static void check_pattern(const struct parse *p, struct mt_options *o)
{
    static const char def[] = "MemTrace-pipe-?";
    if (strchr(o->pattern, '?') && !strchr(o->pattern, '/'))
        return;
    options_refuse(p, "MEMTRACE_PATTERN", o->pattern,
                   "a file name with a `?` for the stream number and no `/`", def);
    o->pattern = def;
}

void mt_options_parse(struct mt_options *o, const char *(*get)(const char *, void *),
                      void (*complain)(const char *, void *), void *ctx)
{
    struct parse p = {get, complain, ctx};
#define MT_OPTION(kind, field, name, def, values, help) take_##kind(&p, &o->field, name, def, values);
#include "options.def"
    check_pattern(&p, o);
}

/* Returns 1 if two names differ by one letter: extra, different, or swapped. Ignores case. */
static int one_apart(const char *a, size_t n, const char *b)
{
    size_t m = strlen(b), head = 0, tail = 0;
    if (n > m + 1 || m > n + 1)
        return 0;
    while (head < n && head < m && toupper((unsigned char)a[head]) == b[head])
        head++;
    while (tail < n - head && tail < m - head && toupper((unsigned char)a[n - 1 - tail]) == b[m - 1 - tail])
        tail++;
    size_t left = n - head - tail, right = m - head - tail;
    return (left <= 1 && right <= 1) ||
           (left == 2 && right == 2 && toupper((unsigned char)a[head]) == b[head + 1] &&
            toupper((unsigned char)a[head + 1]) == b[head]);
}

/* Reports each MEMTRACE_… variable in `environment` (NULL-terminated) whose name is one letter away from a
 * variable of ours: it would silently have no effect. */
static void options_misspelt(char *const *environment)
{
    static const char *const names[] = {
#define MT_OPTION(kind, field, name, def, values, help) name,
#include "options.def"
    };
    enum { NAMES = sizeof names / sizeof *names };
    for (; environment && *environment; environment++) {
        size_t n = strcspn(*environment, "="), meant = NAMES;
        if (n < 9 || strncasecmp(*environment, "MEMTRACE_", 9) != 0)
            continue;
        for (size_t i = 0; i < NAMES; i++) {
            if (strlen(names[i]) == n && memcmp(names[i], *environment, n) == 0) {
                meant = NAMES;
                break;
            }
            if (meant == NAMES && one_apart(*environment, n, names[i]))
                meant = i;
        }
        if (meant != NAMES)
            mt_report("%.*s is not a variable of memtrace and has no effect: is %s meant?",
                      n > 100 ? 100 : (int)n, *environment, names[meant]);
    }
}

static struct mt_options options;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *options_from_environment(const char *name, void *ctx)
{
    return mt_environment_get(name); /* secure: a setuid program must not write where its caller says */
}

static void to_stderr(const char *line, void *ctx)
{
    mt_report("%s", line);
}

static const char *options_copy(const char *s)
{
    const char *p = strdup(s);
    return p ? p : s;
}

static void read_once(void)
{
    mt_options_parse(&options, options_from_environment, to_stderr, NULL);
    if (!getauxval(AT_SECURE))
        options_misspelt(mt_environment());
    /* Copies strings, since the program may change its environment later. */
#define KEEP_STRING(f) options.f = options_copy(options.f)
#define KEEP_NUMBER(f) (void)0
#define KEEP_CHOICE(f) (void)0
#define KEEP_SWITCH(f) (void)0
#define MT_OPTION(kind, field, name, def, values, help) KEEP_##kind(field);
#include "options.def"
}

const struct mt_options *mt_options(void)
{
    pthread_once(&once, read_once);
    return &options;
}
