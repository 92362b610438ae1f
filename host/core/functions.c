/* Functions traced by name: numbers, and the names in -f FILE and --routine. */
#include "state.h"
#include "output.h"
#include <stdio.h>
#include <string.h>

static const char *const annotations[] = {[MT_CORE_FN_REGISTER] = "atomic_trace::register_thread",
                                          [MT_CORE_FN_START_ROI] = "atomic_trace::start_roi",
                                          [MT_CORE_FN_END_ROI] = "atomic_trace::end_roi"};
/* The annotation functions' C names. */
static const char *const c_names[] = {[MT_CORE_FN_REGISTER] = "mt_register_thread",
                                      [MT_CORE_FN_START_ROI] = "mt_start_roi",
                                      [MT_CORE_FN_END_ROI] = "mt_end_roi"};
#define FIRST 4u
#define MAX 65536u
#define SHOWN 8u /* maximum number of unused names that are listed */

struct name {
    const char *text;
    uint32_t seen; /* 1: some module has such a function */
};
static struct name *names; /* names after the fixed ones, from FIRST on */
static uint32_t count;

static int functions_add(const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(names[i].text, name))
            return 0;
    if (count == MAX)
        return -1;
    names[count++] = (struct name){name, 0};
    return 0;
}

/* Reads one name per line, without surrounding blanks and empty lines. Cuts `text` into lines. */
static int add_lines(char *text)
{
    for (char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        char *next = line + n + (line[n] != 0), *end = line + n;
        while (*line == ' ' || *line == '\t')
            line++;
        while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
            end--;
        *end = 0;
        if (*line && functions_add(line))
            return -1;
        line = next;
    }
    return 0;
}

int mt_functions_start(char *why, unsigned size)
{
    size_t bytes;
    if (!names && !(names = mt_plat_map(MAX * sizeof *names))) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    for (unsigned i = 0; i < mt_g.o->routine.count; i++)
        functions_add(mt_g.o->routine.item[i]);
    if (!*mt_g.o->functions)
        return 0;
    char *text = mt_core_output_slurp(mt_g.o->functions, &bytes, why, size); /* the names point into it */
    if (!text)
        return -1;
    if (add_lines(text)) {
        snprintf(why, size, "%s names more than %u functions", mt_g.o->functions, MAX);
        return -1;
    }
    return 0;
}

void mt_functions_lines(void)
{
    for (uint32_t i = 0; i < count; i++)
        mt_core_sink_line(MT_LINE_function, &(struct mt_function_line){i + FIRST, names[i].text});
}

uint32_t mt_core_function(const char *name)
{
    for (uint32_t i = MT_CORE_FN_REGISTER; i <= MT_CORE_FN_END_ROI; i++)
        if (!strcmp(name, annotations[i]) || !strcmp(name, c_names[i]))
            return i;
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(name, names[i].text)) {
            __atomic_store_n(&names[i].seen, 1, __ATOMIC_RELAXED);
            return i + FIRST;
        }
    return 0;
}

int mt_core_symbol_is_part(const char *symbol)
{
    const char *dot = strchr(symbol, '.');
    return dot && (strstr(dot, ".cold") || strstr(dot, ".part."));
}

/* Reports names that no module has: mistakes, or functions inlined everywhere. */
void mt_functions_unseen(void)
{
    char text[600] = "";
    uint32_t unseen = 0, shown = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t n = strlen(text);
        if (names[i].seen)
            continue;
        if (unseen++ < SHOWN && n + strlen(names[i].text) + 4 < sizeof text) {
            snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", names[i].text);
            shown++;
        }
    }
    if (unseen)
        mt_plat_report(
            "no function is called %s%s; names are undecorated, as ns::f, and a function that is inlined "
            "everywhere does not count",
            text, unseen > shown ? " …" : "");
}

const char *mt_function_name(uint64_t id)
{
    return id >= FIRST && id - FIRST < count ? names[id - FIRST].text : "?";
}
