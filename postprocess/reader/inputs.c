/* One input of a source: descriptor, identity, companion. */
#define _GNU_SOURCE
#include "reader/base/internal.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int mt_input_open(struct mt_input *in, const char *path, int fd, const char *meta, struct mt_error *err)
{
    int standard = fd < 0 && strcmp(path, "-") == 0;
    struct stat st;
    in->path = path;
    in->owned = !standard;
    in->fd = fd >= 0 ? fd : standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in->fd < 0 || fstat(in->fd, &st) != 0) {
        int e = errno;
        return mt_error_set(err, MT_E_INPUT, e, 0, path, "cannot open: %s", strerror(e));
    }
    if (S_ISDIR(st.st_mode))
        return mt_error_set(err, MT_E_INPUT, EISDIR, 0, path, "is a directory, not a trace");
    in->device = st.st_dev;
    in->inode = st.st_ino;
    off_t at = lseek(in->fd, 0, SEEK_CUR);
    in->live = !S_ISREG(st.st_mode) || at < 0;
    in->ops = in->live ? &mt_unknown_input : &mt_raw_input;
    in->start = in->live ? 0 : at;
    in->size = in->live || st.st_size < at ? 0 : (uint64_t)(st.st_size - at);
    in->meta_optional = meta == NULL;
    if (meta ? !(in->meta = strdup(meta)) : !standard && fd < 0 && asprintf(&in->meta, "%s.meta", path) < 0) {
        in->meta = NULL;
        return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory");
    }
    return 0;
}

int mt_input_load_companion(struct mt_input *in, int wait, const struct mt_stop *stop, struct mt_error *err)
{
    if (!in->meta)
        return 0;
    for (int tries = 0;; tries++) {
        in->companion = mt_companion_load(in->meta, err);
        if (!in->companion)
            return in->meta_optional && err->code == MT_E_INPUT && err->sys == ENOENT ? 0 : -1;
        const struct mt_companion *c = in->companion;
        if (!wait || c->has_end || !c->regular || c->pid == 0 || tries == 60 || kill((pid_t)c->pid, 0) != 0 ||
            mt_stopped(stop))
            return in->meta_optional || c->has_header
                       ? 0
                       : mt_error_set(err, MT_E_INPUT, 0, 0, in->meta,
                                      "is no companion: no line of it says of what trace it is");
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        mt_companion_free(in->companion);
        in->companion = NULL;
    }
}

int mt_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err)
{
    in->pass = (struct mt_input_pass){0};
    return in->ops->start(in, stop, err);
}

const struct mt_companion *mt_input_companion(const struct mt_input *in)
{
    return mt_input_is_host(in) ? mt_host_companion(in->host.reader) : in->companion;
}

void mt_input_close(struct mt_input *in)
{
    if (in->ops)
        in->ops->close(in);
    mt_companion_free(in->beside);
    free(in->meta);
    if (in->owned && in->fd >= 0)
        close(in->fd);
}
