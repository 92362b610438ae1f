/* Numbers for the page: LEB128 in base64. */
#include "report.h"
#include "memtrace/grow.h"
#include <stdlib.h>

static void report_pack_put(struct mt_pack *p, unsigned char byte)
{
    if (mt_grow(&p->bytes, &p->room, p->n + 1, sizeof *p->bytes) != 0) {
        p->failed = 1;
        return;
    }
    p->bytes[p->n++] = byte;
}

void mt_pack_u64(struct mt_pack *p, uint64_t v)
{
    for (; v > 127; v >>= 7)
        report_pack_put(p, (unsigned char)(v | 128));
    report_pack_put(p, (unsigned char)v);
}

int mt_pack_write(struct mt_pack *p, struct mt_json *j, const char *key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = p->failed ? NULL : malloc((p->n + 2) / 3 * 4 + 1);
    size_t out = 0;
    for (size_t i = 0; text && i < p->n; i += 3) {
        size_t left = p->n - i;
        uint32_t v = (uint32_t)p->bytes[i] << 16 | (left > 1 ? (uint32_t)p->bytes[i + 1] << 8 : 0) |
                     (left > 2 ? p->bytes[i + 2] : 0);
        text[out++] = digits[v >> 18];
        text[out++] = digits[v >> 12 & 63];
        text[out++] = left > 1 ? digits[v >> 6 & 63] : '=';
        text[out++] = left > 2 ? digits[v & 63] : '=';
    }
    if (text) {
        text[out] = 0;
        mt_json_text(j, key, text);
    }
    int rc = text ? 0 : -1;
    free(text);
    free(p->bytes);
    *p = (struct mt_pack){0};
    return rc;
}
