/* A container packed anew: chunk by chunk, whatever they hold, with an index. */
#define _GNU_SOURCE
#include "convert.h"
#include "../../runtime/container/writer.h"
#include "../lib/host_internal.h" /* chunks as they are are no business of the public interface */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int write_file(void *file, const void *data, size_t bytes)
{
    errno = 0;
    return fwrite(data, 1, bytes, file) == bytes ? 0 : errno ? errno : EIO;
}

/* One chunk. 0, or an exit code. */
static int copy(struct mt_mtc_writer *w, struct mt_plain *plain, const char *name, uint64_t at,
                const struct mt_mtc_chunk *head, const unsigned char *stored, int *code)
{
    struct mt_error err;
    if (head->type == MT_MTC_INDEX)
        return 0;
    if (mt_chunk_unpack(plain, name, at, head, stored, &err) != 0) {
        mt_cli_say("%s", err.message);
        *code = mt_cli_exit_code(&err);
        return err.code == MT_E_SYSTEM ? *code : 0;
    }
    int e = mt_mtc_write(w, (enum mt_mtc_chunk_type)head->type, head->flags, head->key, head->first,
                         head->last, head->items, plain->data, plain->bytes);
    if (!e)
        return 0;
    mt_cli_say("cannot write the container: %s", strerror(e));
    return *code = MT_EXIT_FAILURE;
}

static int copy_all(struct mt_window *in, uint64_t at, struct mt_mtc_writer *w, struct mt_plain *plain)
{
    struct mt_mtc_chunk head = {0};
    const unsigned char *stored;
    struct mt_error err;
    int code = 0;
    for (;;) {
        int found;
        switch (mt_chunk_at(in, at, &head, &stored, &err)) {
        case MT_CHUNK_END:
            return code;
        case MT_CHUNK_WHOLE:
            if (copy(w, plain, in->name, at, &head, stored, &code) != 0)
                return code;
            at = mt_chunk_end(at, &head);
            continue;
        case MT_CHUNK_SYSTEM:
            mt_cli_say("%s", err.message);
            return mt_cli_exit_code(&err);
        default:
            mt_cli_say("%s", err.message);
            code = MT_EXIT_INPUT;
            found = mt_chunk_resync(in, &at, 0, &err);
            if (found < 0)
                mt_cli_say("%s", err.message);
            if (found <= 0)
                return found < 0 ? mt_cli_exit_code(&err) : code;
        }
    }
}

int mt_convert_repack(const char *path, FILE *f, int level)
{
    struct mt_window in;
    struct mt_mtc_head head;
    struct mt_error err;
    struct mt_plain plain = {0};
    char why[200];
    if (mt_window_open(&in, path, &mt_cli_stop, &err) != 0) {
        mt_cli_say("%s", err.message);
        return mt_cli_exit_code(&err);
    }
    int code = 0;
    if (mt_container_head(&in, &head, &err) != 0) {
        mt_cli_say("%s", err.message);
        code = mt_cli_exit_code(&err);
    } else {
        struct mt_mtc_file file = {write_file, f};
        struct mt_mtc_writer *w = mt_mtc_writer_again(&file, &head, level, why, sizeof why);
        if (!w) {
            mt_cli_say("%s", why);
            code = MT_EXIT_FAILURE;
        } else {
            code = copy_all(&in, head.head_bytes, w, &plain);
            int e = mt_mtc_writer_close(w);
            if (e && code != MT_EXIT_FAILURE) {
                mt_cli_say("cannot write the container: %s", strerror(e));
                code = MT_EXIT_FAILURE;
            }
        }
    }
    mt_plain_free(&plain);
    mt_window_close(&in);
    return code;
}
