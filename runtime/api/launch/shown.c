/* What kernels are called in traces: tables of results go by the name. */
#define _GNU_SOURCE
#include "shown.h"
#include "base/fork.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shown {
    struct shown *next;
    const struct mt_function *f;
    const char *name, *signature, *text;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static struct shown *all; /* a row for each kernel that was launched */

static const char *shown_file(const struct mt_function *f)
{
    return f->kernel ? (const char *)f->kernel->file : "";
}

static int shown_is_same(const struct mt_function *a, const struct mt_function *b)
{
    if (!a->device ||
        !b->device) /* of the driver API: the same code is compiled and loaded again and again */
        return 1;
    if (*shown_file(a) && *shown_file(b))
        return a->kernel->line == b->kernel->line && !strcmp(shown_file(a), shown_file(b));
    return !strcmp(a->name, b->name);
}

/* Its text; NULL: no memory. */
static const char *shown_add(const struct mt_function *f, const char *name, const char *signature)
{
    struct shown **at = &all, *made;
    unsigned others = 0;
    char *text = NULL;
    for (; *at; at = &(*at)->next)
        if (!strcmp((*at)->name, name) && !strcmp((*at)->signature, signature)) {
            if (shown_is_same((*at)->f, f))
                return (*at)->text;
            others++;
        }
    if (others && asprintf(&text, "%s#%u", name, others + 1) < 0)
        return NULL;
    if ((made = malloc(sizeof *made)) == NULL) {
        free(text);
        return NULL;
    }
    *made = (struct shown){NULL, f, name, signature, text ? text : name};
    *at = made;
    return made->text;
}

const char *mt_function_shown(struct mt_function *f, const char *name, const char *signature)
{
    if (!f->shown) {
        pthread_mutex_lock(&lock);
        const char *text = shown_add(f, name, signature);
        pthread_mutex_unlock(&lock);
        f->shown = text ? text : name;
    }
    return f->shown;
}
