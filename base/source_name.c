/* Removes what compilers add to names: hashes and numbers that depend on options, folders or files. */
#include "source_name.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Translates the names that Numba gives its kernels to Python's ---- */

/* Finds the ABI tags, in which Numba encodes a function's number and flags: k[abi:v1][abi:cw51c...]. */
static const char *python_name_tags(const char *text)
{
    for (const char *at = text; (at = strstr(at, "[abi:v")) != NULL; at++) {
        const char *digit = at + 6;
        while (isdigit((unsigned char)*digit))
            digit++;
        if (digit > at + 6 && strncmp(digit, "][abi:c", 7) == 0)
            return at;
    }
    return NULL;
}

/* Replaces `from` by `to` if the text just written ends with `from`. */
static char *python_name_replace(char *begin, char *end, const char *from, const char *to)
{
    size_t n = strlen(from);
    if ((size_t)(end - begin) < n || memcmp(end - n, from, n) != 0)
        return end;
    return stpcpy(end - n, to);
}

int mt_python_name(char *text)
{
    static const char *const outer[] = {"cudapy::", "__main__::"};
    const char *tags = python_name_tags(text), *in = text;
    char *out = text;
    if (!tags)
        return 0;
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        if (strncmp(in, outer[i], strlen(outer[i])) == 0)
            in += strlen(outer[i]);
    while (in < tags) { /* the output is never longer than the input */
        *out++ = *in++;
        out = python_name_replace(text, out, "::", ".");
        out = python_name_replace(text, out, "_3clocals_3e", "<locals>");
        out = python_name_replace(text, out, "_3clambda_3e", "<lambda>");
    }
    while (strncmp(in, "[abi:", 5) == 0 && strchr(in, ']'))
        in = strchr(in, ']') + 1;
    memmove(out, in, strlen(in) + 1);
    return 1;
}

/* ---- Source file names, as traces and debug information have them ---- */

int mt_is_toolchain_file(const char *path)
{
    static char last[PATH_MAX];
    static int answer;
    static const char include[] = "/usr/include/";
    char probe[PATH_MAX + 32];
    /* CUDA's headers may be in another place, or missing, on the machine that runs the code */
    if (strstr(path, "/lib/clang/") || strstr(path, "/targets/x86_64-linux/include/"))
        return 1;
    /* glibc's inline functions, which wrap its calls */
    if (!strncmp(path, include, sizeof include - 1) && strstr(path, "/bits/") && !strstr(path, "/c++/"))
        return 1;
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (!n || n >= sizeof last)
        return 0;
    if (strlen(last) == n && !memcmp(last, path, n))
        return answer;
    memcpy(last, path, n);
    last[n] = 0;
    answer = 0;
    /* a parent folder that contains cuda_runtime.h is a CUDA include folder */
    for (int level = 0; level < 8 && n && !answer; level++) {
        snprintf(probe, sizeof probe, "%.*s/cuda_runtime.h", (int)n, path);
        answer = !access(probe, F_OK);
        while (n && path[n - 1] != '/')
            n--;
        while (n && path[n - 1] == '/')
            n--;
    }
    return answer;
}

/* Removes the last component, unless it is a leading "..". Returns the new length. */
static size_t source_file_up(char *out, size_t n)
{
    size_t at = n;
    while (at && out[at - 1] != '/')
        at--;
    if (n - at == 2 && !memcmp(out + at, "..", 2))
        return n;
    return at > 1 || *out != '/' ? (at ? at - 1 : 0) : 1;
}

/* Appends a component to a path of n bytes. Returns the new length. */
static size_t source_file_add(char *out, size_t bytes, size_t n, const char *name, size_t length)
{
    int up = length == 2 && !memcmp(name, "..", 2);
    size_t less = up && n ? source_file_up(out, n) : n;
    if (length == 0 || (length == 1 && *name == '.') || less < n || (up && n == 1 && *out == '/'))
        return less;
    if (n && out[n - 1] != '/' && n + 1 < bytes)
        out[n++] = '/';
    if (length > bytes - 1 - n)
        length = bytes - 1 - n;
    memcpy(out + n, name, length);
    return n + length;
}

void mt_source_full(char *out, size_t bytes, const char *folder, const char *file)
{
    const char *parts[] = {*file == '/' ? "" : folder, file};
    size_t n = 0;
    if (bytes > 1 && (*parts[0] == '/' || *file == '/'))
        out[n++] = '/';
    for (unsigned i = 0; i < 2; i++)
        for (const char *at = parts[i]; *at;) {
            size_t length = strcspn(at, "/");
            n = source_file_add(out, bytes, n, at, length);
            at += length + (at[length] == '/');
        }
    out[n] = 0;
}

#define HASH_DIGITS 8       /* shorter numbers may come from the source */
#define LONGEST (32u << 10) /* longer names are hostile and left alone */

/* Skips nvcc's prefix: "__nv_static_", a length, "_", that many characters, "_". */
static const char *source_name_begin(const char *symbol)
{
    static const char mark[] = "__nv_static_";
    char *end;
    if (strncmp(symbol, mark, sizeof mark - 1) != 0 || !isdigit((unsigned char)symbol[sizeof mark - 1]))
        return symbol;
    size_t n = strtoul(symbol + sizeof mark - 1, &end, 10), left = strlen(end);
    return n < left && left - n > 2 && end[0] == '_' && end[n + 1] == '_' ? end + n + 2 : symbol;
}

/* Returns the length without clang's suffix: one of these words and a hash. */
static size_t source_name_length(const char *name)
{
    static const char *const marks[] = {"__intern__", "__static__", ".intern.", ".static."};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        for (const char *at = name; (at = strstr(at, marks[i])) != NULL; at++) {
            const char *hash = at + strlen(marks[i]);
            size_t n = strspn(hash, "0123456789abcdefABCDEF_");
            if (at > name && n >= HASH_DIGITS && !hash[n])
                return (size_t)(at - name);
        }
    return strlen(name);
}

char *mt_source_symbol(const char *symbol)
{
    const char *name = source_name_begin(symbol);
    return strndup(name, source_name_length(name));
}

/* Replaces text[from, to) by `by`, which is not longer. */
static void source_name_replace(char *from, const char *to, const char *by)
{
    size_t n = strlen(by);
    memcpy(from, by, n);
    memmove(from + n, to, strlen(to) + 1);
}

static size_t source_name_word(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return n;
}

/* Replaces nvcc's namespace for a file: "_INTERNAL_d88b0b97_6_31a_cu_109353b2::v". */
static void source_name_files(char *text)
{
    for (char *at = text; (at = strstr(at, "_INTERNAL_")) != NULL;) {
        size_t n = source_name_word(at);
        if ((at == text || !source_name_word(at - 1)) && !strncmp(at + n, "::", 2))
            source_name_replace(at, at + n + 2, "");
        else
            at += n;
    }
}

/* Returns the place after the next `stop` outside of brackets, or NULL. */
static char *source_name_past(char *at, char stop)
{
    for (int depth = 0; *at; at++) {
        if (!depth && *at == stop)
            return at + 1;
        depth += (*at == '<' || *at == '(') - (*at == '>' || *at == ')');
        if (depth < 0)
            return NULL;
    }
    return NULL;
}

/* Writes the name of the n-th lambda of a function. */
static void source_name_number(char *out, size_t room, const char *function, size_t length, unsigned long n)
{
    const char *colons = length ? "::" : "";
    if (n > 1)
        snprintf(out, room, "%.*s%s'lambda%lu'", (int)length, function, colons, n - 2);
    else
        snprintf(out, room, "%.*s%s'lambda'", (int)length, function, colons);
}

/* Replaces nvcc's type "__nv_dl_tag<TYPE, &FUNCTION, NUMBER>" that ends at `end` by "FUNCTION::'lambda'". */
static void source_name_wrapper(char *type, const char *end)
{
    char *tag = strstr(type, "_tag<"), *name = tag ? source_name_past(tag + 5, ',') : NULL, *number, *next;
    char *stop = number = name ? source_name_past(name, ',') : NULL;
    while (number && (next = source_name_past(
                          number, ','))) /* the number is the last argument; a result type may precede it */
        number = next;
    if (!number || number >= end)
        return;
    unsigned long n = strtoul(number + strcspn(number, "0123456789"), NULL, 10);
    name += strspn(name, " &");
    size_t length = (size_t)(--stop - name);
    if (*name == '(' && source_name_past(name + 1, ')') == stop) { /* GNU's demangler writes &(f(int)) */
        name++;
        length -= 2;
    }
    size_t room = length + 40;
    char *text = malloc(room);
    if (text)
        source_name_number(text, room, name, length, n);
    if (text && strlen(text) <= (size_t)(end - type))
        source_name_replace(type, end, text);
    free(text);
}

/* Replaces "__nv_dl_wrapper_t<…>" and "__nv_hdl_wrapper_t<…>", nvcc's types of __device__ lambdas. */
static void source_name_lambdas(char *text)
{
    for (char *at = text; (at = strstr(at, "__nv_")) != NULL; at++) {
        size_t n = source_name_word(at);
        char *end =
            at[n] == '<' && (!strncmp(at, "__nv_dl_wrapper_t", n) || !strncmp(at, "__nv_hdl_wrapper_t", n))
                ? source_name_past(at + n + 1, '>')
                : NULL;
        if (end)
            source_name_wrapper(at, end);
    }
}

/* Rewrites GNU's "{lambda(int)#2}" as LLVM's "'lambda0'(int)". */
static void source_name_braces(char *text)
{
    static const char mark[] = "{lambda(";
    for (char *at = text; (at = strstr(at, mark)) != NULL; at++) {
        char *end = source_name_past(at + sizeof mark - 1, ')'), *brace, word[32];
        if (!end || *end != '#')
            continue;
        unsigned long n = strtoul(end + 1, &brace, 10);
        if (*brace != '}')
            continue;
        source_name_replace(end, brace + 1, "");
        source_name_number(word, sizeof word, "", 0, n);
        size_t put = strlen(word), had = strlen("{lambda");
        memmove(at + put, at + had, strlen(at + had) + 1);
        memcpy(at, word, put);
    }
}

/* Rewrites GNU's "> >" as LLVM's ">>", also after a lambda. */
static void source_name_angles(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++)
        if (!(*in == ' ' && out > text && (out[-1] == '>' || out[-1] == '\'') && in[1] == '>'))
            *out++ = *in;
    *out = 0;
}

void mt_source_text(char *text)
{
    if (strlen(text) < LONGEST) {
        source_name_files(text);
        source_name_lambdas(text);
        source_name_braces(text);
    }
    source_name_angles(text);
    mt_python_name(text);
}

/* Returns the length without qualifiers after a parameter list. */
static size_t source_name_bare(const char *text)
{
    static const char *const behind[] = {" const", " volatile", " &", " &&", " noexcept"};
    size_t n = strlen(text);
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        size_t k = strlen(behind[i]);
        if (n > k && !memcmp(text + n - k, behind[i], k) && memchr(text, '(', n)) {
            n -= k;
            i = SIZE_MAX; /* several may follow, in any order: start again */
        }
    }
    return n;
}

/* Returns where the brackets that end before `end` open, or the end of the last space outside of brackets; 0
 * if there is none. */
static size_t source_name_back(const char *text, size_t end, int brackets)
{
    int depth = 0;
    for (size_t i = end; i-- > 0;) {
        int arrow = text[i] == '>' && i && text[i - 1] == '-';
        depth += (text[i] == ')' || (text[i] == '>' && !arrow)) - (text[i] == '(' || text[i] == '<');
        if (brackets && !depth)
            return i;
        if (!brackets && !depth && text[i] == ' ')
            return i + 1;
    }
    return 0;
}

/* Returns where the last "operator" outside of brackets begins, or n. Its name may contain brackets and
 * spaces. */
static size_t source_name_operator(const char *text, size_t n)
{
    static const char word[] = "operator";
    size_t found = n, length = sizeof word - 1;
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (!strncmp(text + i, word, length) && !source_name_word(text + i + length) &&
            !(i && source_name_word(text + i - 1))) {
            found = depth ? found : i;
            i += length; /* brackets in its name do not count */
            i += (strncmp(text + i, "()", 2) == 0 ? 2 : strspn(text + i, "<>-=")) - 1;
            continue;
        }
        int arrow = text[i] == '>' && i && text[i - 1] == '-';
        depth += (text[i] == '(' || text[i] == '<') - (text[i] == ')' || (text[i] == '>' && !arrow));
    }
    return found;
}

void mt_source_function(char *text)
{
    size_t n = source_name_bare(text), begin;
    if (n >= LONGEST)
        return;
    if (n && text[n - 1] == ')' && (begin = source_name_back(text, n, 1)) > 0)
        n = begin;
    text[n] = 0;
    begin = source_name_back(text, source_name_operator(text, n), 0);
    memmove(text, text + begin, n - begin + 1);
}

typedef char *demangler(const char *, char *, size_t *, int *);
static demangler *_Atomic found;

void mt_demangle_prepare(void)
{
    if (found)
        return;
    demangler *f = (demangler *)dlsym(RTLD_DEFAULT, "__cxa_demangle");
    if (!f) { /* a Python module may have loaded the library; RTLD_NOLOAD without dlclose keeps it loaded */
        void *own = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        f = own ? (demangler *)dlsym(own, "__cxa_demangle") : NULL;
    }
    found = f;
}

char *mt_demangle(const char *name)
{
    int status;
    char *symbol = name ? mt_source_symbol(name) : NULL, *text = NULL;
    if (symbol && !strncmp(symbol, "_Z", 2) && found)
        text = found(symbol, NULL, NULL, &status);
    if (text)
        mt_source_text(text);
    else if (symbol && strcmp(symbol, name) != 0)
        return symbol;
    free(symbol);
    return text;
}

char *mt_demangle_name(const char *name)
{
    char *text = mt_demangle(name);
    if (text)
        mt_source_function(text);
    return text ? text : strdup(name);
}

/* ---- Shortens long names of kernels and functions for messages ---- */

#define DOTS "\xe2\x80\xa6"                           /* the character … */
enum { KEPT = 24, DEEPEST = 3, HALF = MT_SHORT / 2 }; /* 24 bytes keep "(anonymous namespace)" */

/* Returns the length of an operator's name at `at` whose signs are no brackets: "operator<<", "operator->".
 */
static size_t short_operator(const char *at)
{
    static const char word[] = "operator";
    size_t n = sizeof word - 1;
    return strncmp(at, word, n) == 0 ? n + strspn(at + n, "<>-=!") : 0;
}

/* Returns the end of the brackets that open at `at`, or NULL if they do not close. */
static const char *short_close(const char *at)
{
    int depth = 0;
    while (*at) {
        size_t skip = short_operator(at);
        if (skip) {
            at += skip;
            continue;
        }
        depth += strchr("<({[", *at) ? 1 : strchr(">)}]", *at) ? -1 : 0;
        at++;
        if (!depth)
            return at;
    }
    return NULL;
}

/* A text shortened to its beginning and its end. */
struct short_ends {
    char head[HALF + 1], tail[HALF];
    size_t n; /* bytes added so far */
};

static void short_put(struct short_ends *e, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++, e->n++)
        if (e->n < HALF)
            e->head[e->n] = text[i];
        else
            e->tail[(e->n - HALF) % HALF] = text[i];
}

static int short_is_inside(char c) /* Returns 1 for a continuation byte of UTF-8. */
{
    return (c & 0xc0) == 0x80;
}

static struct mt_short short_join(struct short_ends *e)
{
    struct mt_short s;
    size_t head = e->n < HALF ? e->n : HALF, tail = e->n - head, cut = tail > HALF, at = 0, n = 0;
    if (cut) {
        at = tail % HALF;
        tail = HALF;
        while (head && short_is_inside(e->head[head - 1]))
            head--;
        head -= head && (e->head[head - 1] & 0x80);
        for (; tail && short_is_inside(e->tail[at % HALF]); at++)
            tail--;
    }
    memcpy(s.text, e->head, n = head);
    if (cut) {
        memcpy(s.text + n, DOTS, sizeof DOTS - 1);
        n += sizeof DOTS - 1;
    }
    for (size_t i = 0; i < tail; i++)
        s.text[n++] = e->tail[(at + i) % HALF];
    s.text[n] = 0;
    return s;
}

/* Empties brackets of more than KEPT bytes at nesting depth `depth`, and all parameter lists. */
static struct short_ends short_emptied(const char *name, int depth)
{
    struct short_ends e = {.n = 0};
    int closed = 1,
        in = 0; /* closed: 0 once a bracket does not close, so that the time stays linear in the name */
    for (const char *at = name; *at;) {
        size_t n = short_operator(at);
        int opens = closed && !n && strchr("<({[", *at);
        const char *end = opens ? short_close(at) : NULL;
        closed = closed && (!opens || end);
        if (end && end - at > KEPT && (in >= depth || *at == '(')) {
            short_put(&e, at, 1);
            short_put(&e, DOTS, sizeof DOTS - 1);
            short_put(&e, end - 1, 1);
            at = end;
            continue;
        }
        n = end && end - at <= KEPT ? (size_t)(end - at) : n ? n : 1;
        in += n > 1 ? 0 : end ? 1 : in && strchr(">)}]", *at) ? -1 : 0;
        short_put(&e, at, n);
        at += n;
    }
    return e;
}

struct mt_short mt_short(const char *name)
{
    struct short_ends e = {.n = 0};
    size_t size = strlen(name ? name : "");
    if (size <= MT_SHORT)
        short_put(&e, name, size);
    else
        for (int depth = DEEPEST; depth >= 0 && (depth == DEEPEST || e.n > MT_SHORT); depth--)
            e = short_emptied(name, depth);
    return short_join(&e);
}
