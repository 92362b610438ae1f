/* Removes what compilers add to names: hashes and numbers that depend on options, folders or files. */
#include "source_name.h"
#include "python_name.h"
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
