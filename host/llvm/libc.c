/* Memory touched by functions of the C library, computed before the call from the arguments and their
 * data. A comparison or search touches bytes up to the deciding one, although the library reads in words. */
#include "entry.h"
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct touched {
    unsigned count, operand[MT_CORE_OPERANDS];
    uint64_t address[MT_CORE_OPERANDS], bytes[MT_CORE_OPERANDS];
};

#define TEXT(x) ((const char *)(uintptr_t)(x))
#define BYTES(x) ((const unsigned char *)(uintptr_t)(x))

/* Sets the bytes touched by operand i of format/host_libc.def. */
static void libc_set(struct touched *t, unsigned i, uint64_t address, uint64_t bytes)
{
    if (!bytes)
        return;
    if (t->count == MT_CORE_OPERANDS) {
        mt_self.lost++;
        return;
    }
    t->operand[t->count] = i;
    t->address[t->count] = address;
    t->bytes[t->count++] = bytes;
}

static uint64_t length_in(uint64_t s, uint64_t n)
{
    const void *end = memchr(BYTES(s), 0, n);
    return end ? (uint64_t)((const char *)end - TEXT(s)) : n;
}

/* Returns the number of bytes up to and including the deciding one. */
static uint64_t libc_upto(uint64_t at, uint64_t n)
{
    return at < n ? at + 1 : n;
}

static uint64_t libc_same_text(uint64_t a, uint64_t b, uint64_t n, int fold)
{
    uint64_t i = 0;
    for (; i < n; i++) {
        int x = BYTES(a)[i], y = BYTES(b)[i];
        if (fold ? tolower(x) != tolower(y) : x != y)
            break;
        if (!x)
            break;
    }
    return libc_upto(i, n);
}

static void libc_both(struct touched *t, uint64_t a, uint64_t b, uint64_t n)
{
    libc_set(t, 0, a, n);
    libc_set(t, 1, b, n);
}

/* ---- one function per shape of format/host_libc.def; a, b, c, d: the call's arguments; r: its result ----
 */
#define SHAPE(name)                                                                                          \
    static void libc_##name(struct touched *t, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t r)
#define UNUSED (void)a, (void)b, (void)c, (void)d, (void)r

SHAPE(copy)
{
    UNUSED;
    libc_set(t, 0, b, c);
    libc_set(t, 1, a, c);
}
SHAPE(copy_back)
{
    UNUSED;
    libc_set(t, 0, a, c);
    libc_set(t, 1, b, c);
}
SHAPE(fill)
{
    UNUSED;
    libc_set(t, 0, a, c);
}
SHAPE(zero)
{
    UNUSED;
    libc_set(t, 0, a, b);
}
SHAPE(copy_until) /* without the byte c, the length (fourth argument) was copied */
{
    UNUSED;
    libc_set(t, 0, b, r ? r - a : d);
    libc_set(t, 1, a, r ? r - a : d);
}
SHAPE(find)
{
    UNUSED;
    const void *at = memchr(BYTES(a), (int)b, c);
    libc_set(t, 0, a, at ? (uint64_t)((const unsigned char *)at - BYTES(a)) + 1 : c);
}
SHAPE(find_last)
{
    UNUSED;
    const void *at = memrchr(BYTES(a), (int)b, c);
    uint64_t first = at ? (uint64_t)((const unsigned char *)at - BYTES(a)) : 0;
    libc_set(t, 0, a + first, c - first);
}
SHAPE(find_raw)
{
    UNUSED;
    libc_set(t, 0, a, (uint64_t)((const unsigned char *)rawmemchr(BYTES(a), (int)b) - BYTES(a)) + 1);
}
SHAPE(compare)
{
    UNUSED;
    uint64_t i = 0;
    while (i < c && BYTES(a)[i] == BYTES(b)[i])
        i++;
    libc_both(t, a, b, libc_upto(i, c));
}
SHAPE(search)
{
    UNUSED;
    const void *at = memmem(BYTES(a), b, BYTES(c), d);
    libc_set(t, 0, a, at ? (uint64_t)((const unsigned char *)at - BYTES(a)) + d : b);
    libc_set(t, 1, c, d);
}
SHAPE(text)
{
    UNUSED;
    libc_set(t, 0, a, strlen(TEXT(a)) + 1);
}
SHAPE(text_n)
{
    UNUSED;
    libc_set(t, 0, a, libc_upto(length_in(a, b), b));
}
SHAPE(text_copy)
{
    UNUSED;
    uint64_t n = strlen(TEXT(b)) + 1;
    libc_set(t, 0, b, n);
    libc_set(t, 1, a, n);
}
SHAPE(text_copy_n)
{
    UNUSED;
    libc_set(t, 0, b, libc_upto(length_in(b, c), c));
    libc_set(t, 1, a, c);
}
static void libc_appended(struct touched *t, uint64_t a, uint64_t b, uint64_t read, uint64_t written)
{
    uint64_t there = strlen(TEXT(a));
    libc_set(t, 0, a, there + 1);
    libc_set(t, 1, b, read);
    libc_set(t, 2, a + there, written);
}
SHAPE(append)
{
    UNUSED;
    uint64_t n = strlen(TEXT(b)) + 1;
    libc_appended(t, a, b, n, n);
}
SHAPE(append_n)
{
    UNUSED;
    uint64_t n = length_in(b, c);
    libc_appended(t, a, b, libc_upto(n, c), n + 1);
}
SHAPE(text_compare)
{
    UNUSED;
    libc_both(t, a, b, libc_same_text(a, b, UINT64_MAX, 0));
}
SHAPE(text_compare_n)
{
    UNUSED;
    libc_both(t, a, b, libc_same_text(a, b, c, 0));
}
SHAPE(case_compare)
{
    UNUSED;
    libc_both(t, a, b, libc_same_text(a, b, UINT64_MAX, 1));
}
SHAPE(case_compare_n)
{
    UNUSED;
    libc_both(t, a, b, libc_same_text(a, b, c, 1));
}
SHAPE(text_find)
{
    UNUSED;
    libc_set(t, 0, a, (uint64_t)(strchrnul(TEXT(a), (int)b) - TEXT(a)) + 1);
}
SHAPE(text_search)
{
    UNUSED;
    const char *at = strstr(TEXT(a), TEXT(b));
    uint64_t needle = strlen(TEXT(b));
    libc_set(t, 0, a, at ? (uint64_t)(at - TEXT(a)) + needle : strlen(TEXT(a)) + 1);
    libc_set(t, 1, b, needle + 1);
}
SHAPE(span)
{
    UNUSED;
    libc_set(t, 0, a, strspn(TEXT(a), TEXT(b)) + 1);
    libc_set(t, 1, b, strlen(TEXT(b)) + 1);
}
SHAPE(complement_span)
{
    UNUSED;
    libc_set(t, 0, a, strcspn(TEXT(a), TEXT(b)) + 1);
    libc_set(t, 1, b, strlen(TEXT(b)) + 1);
}
SHAPE(duplicate)
{
    UNUSED;
    uint64_t n = r ? strlen(TEXT(r)) + 1 : 0;
    libc_set(t, 0, a, n);
    libc_set(t, 1, r, n);
}
static uint64_t libc_count_of(uint64_t result) /* -1: it failed */
{
    return (int64_t)result > 0 ? result : 0;
}
SHAPE(transfer) /* recv with MSG_TRUNC returns more than fits */
{
    UNUSED;
    libc_set(t, 0, b, libc_count_of(r) < c ? libc_count_of(r) : c);
}
static void libc_pieces(struct touched *t, const struct iovec *v, uint64_t n, uint64_t bytes)
{
    for (uint64_t i = 0; i < n && bytes; i++) {
        uint64_t part = v[i].iov_len < bytes ? v[i].iov_len : bytes;
        libc_set(t, 0, (uint64_t)(uintptr_t)v[i].iov_base, part);
        bytes -= part;
    }
}
SHAPE(scattered)
{
    UNUSED;
    libc_pieces(t, (const struct iovec *)(uintptr_t)b, c, libc_count_of(r));
}
SHAPE(message)
{
    UNUSED;
    const struct msghdr *m = (const struct msghdr *)(uintptr_t)b;
    libc_pieces(t, m->msg_iov, m->msg_iovlen, libc_count_of(r));
}
SHAPE(items) /* a partial item at the end of a file does not count */
{
    UNUSED;
    libc_set(t, 0, a, r * b);
}
SHAPE(items_checked)
{
    UNUSED;
    libc_set(t, 0, a, r * c);
}
SHAPE(line)
{
    UNUSED;
    libc_set(t, 0, a, r ? strlen(TEXT(a)) + 1 : 0);
}
SHAPE(whole_line)
{
    UNUSED;
    if (libc_count_of(r))
        libc_set(t, 0, (uint64_t)(uintptr_t)*(char **)(uintptr_t)a, r + 1);
}
SHAPE(word)
{
    UNUSED;
    libc_set(t, 0, a, 4);
}
SHAPE(owned_word) /* word of the mutex in a unique_lock */
{
    UNUSED;
    libc_set(t, 0, *(const uint64_t *)(uintptr_t)b, 4);
}
SHAPE(second_word)
{
    UNUSED;
    libc_set(t, 0, b, 4);
}
#undef SHAPE

static const struct {
    void (*shape)(struct touched *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
} functions[] = {
#define MT_HOST_LIBC(symbol, shape, ops, after) {libc_##shape},
#include "format/host_libc.def"
};

/* Computes the ranges that a call touches; before a copy is made, also whether its destination already
 * holds the bytes. */
static void libc_shape(struct touched *t, uint32_t code, uint32_t site, uint64_t a, uint64_t b, uint64_t c,
                       uint64_t d, uint64_t result)
{
    t->count = 0;
    functions[code].shape(t, a, b, c, d, result);
    if (t->count == 2 && (functions[code].shape == libc_copy || functions[code].shape == libc_copy_back))
        __mt_host_copied(site + 1, t->address[0], t->address[1], t->bytes[0]);
}

void __mt_host_libc(uint32_t code, uint32_t site, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                    uint64_t result)
{
    struct touched t;
    int saved = errno;
    if (code >= MT_LIBC_COUNT || (!mt_llvm_thread() && __mt_host_current != &mt_self.handler))
        return;
    libc_shape(&t, code, site, a, b, c, d, result);
    for (unsigned i = 0; i < t.count; i++)
        mt_access(site + t.operand[i], t.address[i], t.bytes[i]);
    errno = saved;
}

void __mt_host_begin_libc(uint32_t code, uint32_t site, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                          uint64_t result)
{
    struct touched t;
    struct mt_core_operand o[MT_CORE_OPERANDS];
    int saved = errno;
    if (!mt_atomic) {
        __mt_host_libc(code, site, a, b, c, d, result);
        return;
    }
    if (code >= MT_LIBC_COUNT || !mt_llvm_thread())
        return;
    libc_shape(&t, code, site, a, b, c, d, result);
    for (unsigned i = 0; i < t.count; i++) {
        uint32_t size = t.bytes[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)t.bytes[i];
        o[i] = (struct mt_core_operand){t.address[i], site + t.operand[i], size};
    }
    mt_atomic_begin(o, t.count);
    errno = saved;
}
