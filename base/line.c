/* Writes JSON lines of companions and meta chunks, from memtrace/events.def. */
#include "line.h"
#include "json.h"

#define put_u64 mt_jsonl_u64
#define put_id mt_jsonl_u64
#define put_i64 mt_jsonl_i64
#define put_int mt_jsonl_i64
#define put_stream mt_jsonl_i64
#define put_device mt_jsonl_i64
#define put_bool mt_jsonl_bool
#define put_address mt_jsonl_address
#define put_string mt_jsonl_string
#define put_u32x3 mt_jsonl_u32x3
#define put_u64s mt_jsonl_u64s
#define put_strings(j, key, value) mt_jsonl_strings(j, key, (value).list, (value).n)

void mt_line_put(struct mt_jsonl *j, enum mt_line_kind kind, const void *line)
{
    /* clang-format off */
    switch (kind) {
#define MT_EV_ONLY(ev, words) case MT_LINE_##ev: { const struct mt_##ev##_line *l = line; mt_jsonl_begin(j, #ev);
#define MT_EV_KEY(type, key, when, absent, words) if (when) put_##type(j, #key, l->key);
#define MT_EV_AGAIN(type, key, when) if (when) put_##type(j, #key, l->key);
#define MT_EV_WRITES(type, key, when, words, ...) if (when) put_##type(j, #key, __VA_ARGS__);
#define MT_EV_END(words) break; }
#include "memtrace/events.def"
    }
    /* clang-format on */
    mt_jsonl_end(j);
}
