/* See numbers.h. */
#define _GNU_SOURCE
#include "numbers.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* 1,234,567 */
struct mt_number mt_number_count(uint64_t n)
{
    struct mt_number w;
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            w.text[at++] = ',';
        w.text[at++] = digits[i];
    }
    w.text[at] = 0;
    return w;
}

/* Halves are rounded up. */
struct mt_number mt_number_decimals(double v, int decimals)
{
    struct mt_number w;
    snprintf(w.text, sizeof w.text, "%.*f", decimals, nextafter(v, INFINITY));
    return w;
}

struct mt_number mt_number_bytes(uint64_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)n;
    unsigned u = 0;
    for (; v >= 1024 && u < sizeof units / sizeof *units - 1; u++)
        v /= 1024;
    struct mt_number w, number = u ? mt_number_decimals(v, v < 10 ? 2 : v < 100 ? 1 : 0) : mt_number_count(n);
    snprintf(w.text, sizeof w.text, "%.40s %s", number.text, units[u]);
    return w;
}

/* 100 % is all of it, 0 % is nothing. */
struct mt_number mt_number_percent(uint64_t part, uint64_t all)
{
    struct mt_number w, number;
    double p = all ? 100.0 * (double)part / (double)all : 0;
    if (part == all || !part)
        number = mt_number_decimals(p, 0);
    else if (p < 0.1 || p > 99.9)
        snprintf(number.text, sizeof number.text, "%s", p < 0.1 ? "< 0.1" : "> 99.9");
    else
        number = mt_number_decimals(p, 1);
    snprintf(w.text, sizeof w.text, "%.40s %%", number.text);
    return w;
}

struct mt_number mt_number_many(uint64_t n, const char *one, const char *more)
{
    struct mt_number w;
    snprintf(w.text, sizeof w.text, "%.40s %.20s", mt_number_count(n).text, n == 1 ? one : more);
    return w;
}

struct mt_number mt_number_duration(double ns)
{
    struct mt_number n;
    if (ns < 1e3)
        snprintf(n.text, sizeof n.text, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(n.text, sizeof n.text, "%.*f \u00b5s", ns < 1e4 ? 2 : 1, ns / 1e3);
    else if (ns < 1e9)
        snprintf(n.text, sizeof n.text, "%.*f ms", ns < 1e7 ? 2 : 1, ns / 1e6);
    else
        snprintf(n.text, sizeof n.text, "%.2f s", ns / 1e9);
    return n;
}
