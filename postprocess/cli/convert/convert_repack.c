/* A container packed anew: chunk by chunk, whatever they hold, with an index. */
#define _GNU_SOURCE
#include "convert.h"
#include "convert_write.h"
#include "reader/container/container.h" /* chunks as they are are not part of the public interface */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Lines of a meta chunk, when not all launches are wanted. 0 or an errno value. */
static int copy_lines(struct mt_mtc_writer *w, const struct mt_convert_chosen *chosen, const char *text,
                      size_t bytes)
{
    struct mt_convert_lines lines = {.w = w};
    const char *end = text + bytes;
    int e = 0;
    while (!e && text < end) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((lf ? lf : end) - text);
        char *changed;
        if (mt_convert_line(chosen, 0, text, n, &changed) != 0)
            return ENOMEM;
        e = mt_convert_line_add(&lines, changed ? changed : text, changed ? strlen(changed) : n);
        free(changed);
        text += n + 1;
    }
    if (!e)
        e = mt_convert_lines_end(&lines);
    free(lines.text);
    return e;
}

/* What the container says of itself. */
struct convert_repack_told {
    struct mt_companion *lines;
    struct mt_meta_bound bound;
};

/* One chunk, whose lines `told` collects. 0, or an exit code. */
static int convert_repack_copy(struct mt_mtc_writer *w, struct mt_chunk_payload *plain, const char *name,
                               uint64_t at, const struct mt_mtc_chunk *head, const unsigned char *stored,
                               const struct mt_convert_chosen *chosen, struct convert_repack_told *told,
                               int *code)
{
    struct mt_error err;
    if (head->type == MT_MTC_INDEX ||
        (head->type == MT_MTC_DEVICE && !mt_convert_is_chosen(chosen, head->first)))
        return 0;
    if ((head->type == MT_MTC_META && mt_meta_bound(&told->bound, name, at, head, &err) != 0) ||
        mt_chunk_unpack(plain, name, at, head, stored, &err) != 0) {
        *code = mt_cli_failed(&err);
        return err.code == MT_E_SYSTEM ? *code : 0;
    }
    int e =
        head->type == MT_MTC_META && mt_companion_add(told->lines, (char *)plain->data, plain->bytes, at) != 0
            ? ENOMEM
        : head->type == MT_MTC_META && !chosen->all
            ? copy_lines(w, chosen, (char *)plain->data, plain->bytes)
            : mt_mtc_write(w, (enum mt_mtc_chunk_type)head->type, head->flags, head->key, head->first,
                           head->last, head->items, plain->data, plain->bytes);
    mt_companion_forget_memory(told->lines);
    if (!e)
        return 0;
    mt_cli_say("cannot write the container: %s", strerror(e));
    return *code = MT_EXIT_FAILURE;
}

static int copy_all(struct mt_window *in, uint64_t at, struct mt_mtc_writer *w,
                    const struct mt_convert_chosen *chosen, struct convert_repack_told *told,
                    struct mt_chunk_payload *plain, int *indexed)
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
            *indexed |= head.type == MT_MTC_INDEX;
            if (convert_repack_copy(w, plain, in->name, at, &head, stored, chosen, told, &code) != 0)
                return code;
            at = mt_chunk_end(at, &head);
            continue;
        case MT_CHUNK_SYSTEM:
            return mt_cli_failed(&err);
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

/* The file that is written, until nothing more may go into it. */
struct convert_repack_out {
    FILE *f;
    int shut;
};

static int convert_repack_write(void *file, const void *data, size_t bytes)
{
    struct convert_repack_out *out = file;
    return out->shut ? 0 : mt_convert_write(out->f, data, bytes);
}

/* A container that its program ended has an index, and one that a kill ended has lines of its own. One with
 * neither was cut off: its copy gets no index, so that nobody takes it for whole. */
static int convert_repack_whole(const struct mt_window *in, const struct mt_companion *told, int indexed,
                                struct convert_repack_out *out)
{
    if (indexed || mt_companion_speaks(told))
        return 0;
    mt_cli_say("%s: %s", in->name, MT_CONTAINER_CUT);
    out->shut = 1;
    return MT_EXIT_INPUT;
}

/* Into a container that begins with `head`. 0, or an exit code. */
static int write_container(struct mt_window *in, const struct mt_mtc_head *head, FILE *f, int level,
                           const struct mt_convert_chosen *chosen, int no_beside)
{
    char why[200] = "no memory";
    int indexed = 0;
    struct mt_chunk_payload plain = {0};
    struct convert_repack_out out = {f, 0};
    struct mt_mtc_file file = {convert_repack_write, &out};
    struct convert_repack_told told = {.lines = mt_companion_new(in->name)};
    struct mt_mtc_writer *w = told.lines ? mt_mtc_writer_again(&file, head, level, why, sizeof why) : NULL;
    int code = w ? copy_all(in, head->head_bytes, w, chosen, &told, &plain, &indexed) : MT_EXIT_FAILURE;
    if (code == MT_EXIT_INPUT)
        code = mt_convert_partial(w, MT_CONVERT_UNREAD, in->name, told.lines);
    if (code == 0)
        code = convert_repack_whole(in, told.lines, indexed, &out);
    int e = w ? mt_mtc_writer_close(w) : 0;
    if (!w) {
        mt_cli_say("%s", why);
    } else if (e && code != MT_EXIT_FAILURE) {
        mt_cli_say("cannot write the container: %s", strerror(e));
        code = MT_EXIT_FAILURE;
    } else if (code == 0) {
        code = mt_convert_container_complete(in->name, told.lines, !no_beside);
    }
    mt_companion_free(told.lines);
    mt_chunk_payload_free(&plain);
    return code;
}

int mt_convert_repack(struct mt_window *in, FILE *f, int level, const struct mt_convert_choice *want)
{
    struct mt_convert_chosen chosen;
    struct mt_mtc_head head;
    struct mt_error err;
    int code = mt_convert_choose(in->name, want, &chosen);
    if (code == 0 && mt_container_head(in, &head, &err) != 0)
        code = mt_cli_failed(&err);
    if (code == 0)
        code = write_container(in, &head, f, level, &chosen, want->no_beside);
    free(chosen.seq);
    return code;
}
