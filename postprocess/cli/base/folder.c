/* Finds the traces of the newest run in a folder, or for a pattern that the shell did not expand. */
#define _GNU_SOURCE
#include "cli.h"
#include "memtrace/grow.h"
#include "kind.h"
#include "memtrace/host.h"
#include "memtrace/order.h"
#include "reader/run.h"
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct found {
    char *path;
    struct mt_run_id run;
    uint64_t stream;
    int inside; /* 1: the companion's lines are inside the trace only, so it may be a copy */
};

struct folder {
    struct found *list;
    size_t n, room;
    size_t lost; /* files named like traces whose companion does not name a run */
    unsigned flags;
};

/* Finds the run of a trace from its companion. Returns 0, or -1 if it is unknown. */
static int folder_known(const struct mt_companion *c, struct found *f)
{
    if (!c || !c->has_header)
        return -1;
    f->run = (struct mt_run_id){c->pid, c->start_ns, c->wall_ms, mt_run_job(c->job, strlen(c->job)), 0};
    f->stream = c->stream;
    return 0;
}

static int folder_run_of(const char *meta, struct found *f)
{
    struct mt_companion *c = mt_companion_head(meta);
    int rc = folder_known(c, f);
    mt_companion_free(c);
    return rc;
}

/* Finds the run of a compact trace, which contains its companion. Returns 0 or -1. */
static int folder_inside_run_of(const char *path, struct found *f)
{
    struct mt_error err;
    struct mt_host_reader *r = mt_is_container(path) ? mt_host_reader_open(path, &mt_cli_stop, &err) : NULL;
    int rc = folder_known(r ? mt_host_companion(r) : NULL, f);
    f->run.host = mt_kind_of(path) == MT_KIND_CONTAINER;
    f->inside = 1;
    mt_host_reader_close(r);
    return rc;
}

static int folder_add(struct folder *all, const struct found *f)
{
    if (mt_grow(&all->list, &all->room, all->n + 1, sizeof *all->list) != 0)
        return -1;
    all->list[all->n++] = *f;
    return 0;
}

/* Returns 0, or -1 without memory. */
static int folder_look_at(struct folder *all, const char *dir, const char *name)
{
    struct found f = {0};
    struct stat st;
    char *meta = NULL;
    size_t n = strlen(name);
    int rc = -1;
    if (n > 5 && !strcmp(name + n - 5, ".meta"))
        return 0;
    if (asprintf(&f.path, "%s/%s", dir, name) < 0)
        return -1;
    if (asprintf(&meta, "%s.meta", f.path) < 0)
        goto out;
    rc = 0;
    if (stat(f.path, &st) != 0 || !S_ISREG(st.st_mode))
        goto out;
    if (folder_run_of(meta, &f) != 0 && folder_inside_run_of(f.path, &f) != 0) {
        const char *dot = strchr(name, '.'); /* sources, tables and the like have other suffixes */
        all->lost += strncmp(name, "MemTrace-", 9) == 0 && (!dot || strcmp(dot, ".mtc") == 0);
        goto out;
    }
    rc = folder_add(all, &f);
    free(meta);
    if (rc != 0)
        free(f.path);
    return rc;
out:
    free(meta);
    free(f.path);
    return rc;
}

static int folder_by_name(const void *a, const void *b)
{
    return strverscmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

/* Compares by stream; traces that contain their companion come last. */
MT_ORDER_FUNCTION(folder_by_stream, struct found,
                  MT_ORDER_DIFFER(x, y, run.pid) MT_ORDER_DIFFER(x, y, run.host) MT_ORDER_DIFFER(x, y, stream)
                      MT_ORDER_DIFFER(x, y, inside) return folder_by_name(a, b);)

/* Removes from the traces of one run those that memtrace convert made from a stream that is also there. */
static void folder_drop_copies(struct folder *all)
{
    size_t kept = 0;
    qsort(all->list, all->n, sizeof *all->list, folder_by_stream);
    for (size_t i = 0; i < all->n; i++) {
        struct found f = all->list[i], *o = kept ? &all->list[kept - 1] : NULL;
        if (!o || !f.inside || f.run.host || o->stream != f.stream || o->run.pid != f.run.pid) {
            all->list[kept++] = f;
            continue;
        }
        mt_cli_note("%s: is left alone: %s has the same stream of the same run", f.path, o->path);
        free(f.path);
    }
    all->n = kept;
}

/* Keeps the traces of this run. Returns how many were of others. */
static size_t folder_keep(struct folder *all, const struct mt_run_id *run)
{
    size_t kept = 0, others = 0;
    for (size_t i = 0; i < all->n; i++) {
        struct found *f = &all->list[i];
        int same = mt_run_same(&f->run, run);
        others += !same;
        if (same && (!f->run.host || all->flags & MT_SOURCE_HOST || run->host))
            all->list[kept++] = *f;
        else
            free(f->path);
    }
    all->n = kept;
    return others;
}

static void folder_say_lost(const struct folder *all, const char *dir)
{
    if (all->lost)
        mt_cli_say("%s: %zu file%s left alone: no companion that can be read says of which run %s", dir,
                   all->lost, all->lost == 1 ? " is" : "s are", all->lost == 1 ? "it is" : "they are");
}

/* Keeps the traces of the newest run, sorted by name; says if there were others. */
static void folder_choose(struct folder *all, const char *dir)
{
    const struct found *newest = all->list;
    for (size_t i = 1; i < all->n; i++)
        if (mt_run_newer(&all->list[i].run, &newest->run))
            newest = &all->list[i];
    if (!all->n)
        return;
    struct mt_run_id run = newest->run;
    size_t others = folder_keep(all, &run);
    folder_drop_copies(all);
    qsort(all->list, all->n, sizeof *all->list, folder_by_name);
    if (others)
        mt_cli_say(
            "%s: has traces of more than one run: those of process %llu, the newest, are taken (%zu file%s "
            "of others left alone)",
            dir, (unsigned long long)run.pid, others, others == 1 ? "" : "s");
    folder_say_lost(all, dir);
}

/* Lists all traces. Returns 0, or an exit code after a message. */
static int folder_list(struct folder *all, const char *dir, const char *pattern)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = 0;
    if (!d)
        return mt_cli_refuse("%s: cannot open: %s", dir, strerror(errno));
    while (rc == 0 && (e = readdir(d)))
        if (!pattern || fnmatch(pattern, e->d_name, 0) == 0)
            rc = folder_look_at(all, dir, e->d_name);
    closedir(d);
    return rc ? mt_cli_fail("no memory") : 0;
}

/* Lists the traces of the newest run. Returns 0, or an exit code after a message. */
static int folder_read(struct folder *all, const char *dir, const char *pattern)
{
    int code = folder_list(all, dir, pattern);
    if (code)
        return code;
    folder_choose(all, dir);
    if (all->n)
        return 0;
    return mt_cli_refuse(
        "%s: this directory has no trace with a companion (MemTrace-pipe-N and MemTrace-pipe-N.meta, "
        "or inside "
        "a .mtc)%s%s",
        dir, pattern ? " that is called " : "", pattern ? pattern : "");
}

static int folder_append(struct mt_inputs *in, char *path, int owned)
{
    int grown = mt_grow(&in->listed, &in->listed_room, in->nlisted + 1, sizeof *in->listed) == 0;
    char *own = grown && !owned ? strdup(path) : path;
    if (!grown || !own) {
        mt_cli_say("no memory");
        if (owned)
            free(path);
        return MT_EXIT_FAILURE;
    }
    in->listed[in->nlisted++] = own;
    mt_output_spare(own);
    return 0;
}

/* Adds the traces that one word of the command line stands for. */
static int folder_take(struct mt_inputs *in, const char *word)
{
    struct stat st;
    struct folder all = {.flags = in->flags};
    int exists = stat(word, &st) == 0;
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
    if (exists ? !S_ISDIR(st.st_mode) : !strpbrk(name, "?*"))
        return folder_append(in, (char *)word, 0);
    char *dir = exists  ? strdup(word)
                : slash ? strndup(word, (size_t)(slash - word) + (slash == word))
                        : strdup(".");
    if (!dir)
        return mt_cli_fail("no memory");
    char *pattern = exists ? NULL : strdup(name);
    for (char *p = pattern; p && *p; p++)
        if (*p == '?') /* as in MEMTRACE_PATTERN, a stream's number, of any length */
            *p = '*';
    int code = exists || pattern ? folder_read(&all, dir, pattern) : MT_EXIT_FAILURE;
    free(pattern);
    for (size_t i = 0; i < all.n; i++)
        if (code)
            free(all.list[i].path);
        else
            code = folder_append(in, all.list[i].path, 1);
    free(all.list);
    free(dir);
    return code;
}

int mt_inputs_folders(struct mt_inputs *in)
{
    int any = 0, code = 0;
    struct stat st;
    for (size_t i = 0; i < in->npaths; i++)
        any |= stat(in->paths[i], &st) == 0 ? S_ISDIR(st.st_mode) : strpbrk(in->paths[i], "?*") != NULL;
    if (!any || in->fds)
        return 0;
    for (size_t i = 0; i < in->npaths && !code; i++)
        code = folder_take(in, in->paths[i]);
    if (!code) {
        in->paths = (const char *const *)in->listed;
        in->npaths = in->nlisted;
    }
    return code;
}

static void folder_free(struct folder *all)
{
    for (size_t i = 0; i < all->n; i++)
        free(all->list[i].path);
    free(all->list);
}

/* Moves the traces of the oldest remaining run from `all` to `one`. Returns 0, or -1 without memory. */
static int folder_next(struct folder *all, struct folder *one)
{
    size_t kept = 0;
    struct mt_run_id run = all->list[0].run;
    for (size_t i = 1; i < all->n; i++)
        if (mt_run_newer(&run, &all->list[i].run))
            run = all->list[i].run;
    if (mt_grow(&one->list, &one->room, all->n, sizeof *one->list) != 0)
        return -1;
    one->n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (mt_run_same(&all->list[i].run, &run))
            one->list[one->n++] = all->list[i];
        else
            all->list[kept++] = all->list[i];
    all->n = kept;
    folder_drop_copies(one);
    qsort(one->list, one->n, sizeof *one->list, folder_by_name);
    return 0;
}

static int folder_hand_on(const struct folder *one,
                          int (*take)(void *arg, const char *const *paths, size_t n), void *arg)
{
    const char **paths = calloc(one->n, sizeof *paths);
    if (!paths)
        return mt_cli_fail("no memory");
    for (size_t i = 0; i < one->n; i++)
        paths[i] = one->list[i].path;
    int code = take(arg, paths, one->n);
    free((void *)paths);
    return code;
}

int mt_inputs_runs(const char *dir, unsigned flags,
                   int (*take)(void *arg, const char *const *paths, size_t n), void *arg)
{
    struct folder all = {.flags = flags}, one = {.flags = flags};
    int code = folder_list(&all, dir, NULL), worst = 0;
    folder_say_lost(&all, dir);
    while (all.n && (code == 0 || code == MT_EXIT_INPUT)) {
        code = folder_next(&all, &one) != 0                      ? mt_cli_fail("no memory")
               : !one.list[0].run.host || flags & MT_SOURCE_HOST ? folder_hand_on(&one, take, arg)
                                                                 : 0;
        worst = code ? code : worst;
        for (size_t i = 0; i < one.n; i++)
            free(one.list[i].path);
        one.n = 0;
    }
    folder_free(&all);
    free(one.list);
    return code == 0 || code == MT_EXIT_INPUT ? worst : code;
}

void mt_inputs_free(struct mt_inputs *in)
{
    for (size_t i = 0; i < in->nlisted; i++)
        free(in->listed[i]);
    free(in->listed);
    free(in->companions);
    in->listed = NULL;
    in->companions = NULL;
    in->nlisted = in->listed_room = in->ncompanions = in->companion_room = 0;
}
