/* Edit distance against the table of every beginner's book,
 * on words of up to 300 letters; known distances. */
#include "../../postprocess/analysis/graph/sequence.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void similarity_same(const char *what, int64_t got, int64_t want)
{
    if (got == want)
        return;
    printf("%s: %lld, not %lld\n", what, (long long)got, (long long)want);
    failed = 1;
}

static int64_t similarity_words(const char *a, const char *b)
{
    uint32_t x[64], y[64];
    size_t n = strlen(a), m = strlen(b);
    for (size_t i = 0; i < n; i++)
        x[i] = (unsigned char)a[i];
    for (size_t i = 0; i < m; i++)
        y[i] = (unsigned char)b[i];
    return mt_levenshtein(x, n, y, m);
}

static int64_t similarity_table(const uint32_t *a, size_t n, const uint32_t *b, size_t m)
{
    static int64_t d[301][301];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            int64_t best = i == 0 ? (int64_t)j : (int64_t)i;
            if (i && j) {
                best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
                best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            }
            d[i][j] = best;
        }
    return d[n][m];
}

static void random_words(void)
{
    unsigned seed = 7;
    static const size_t lengths[] = {0, 1, 5, 63, 64, 65, 127, 128, 129, 200, 300};
    for (int round = 0; round < 1500; round++) {
        uint32_t a[300], b[300];
        size_t n = lengths[rand_r(&seed) % 11], m = lengths[rand_r(&seed) % 11];
        unsigned letters = rand_r(&seed) % 3 ? 1 + rand_r(&seed) % 6 : 200;
        for (size_t i = 0; i < n; i++)
            a[i] = rand_r(&seed) % letters;
        for (size_t i = 0; i < m; i++) /* half of the time much of a is in b */
            b[i] = round % 2 && i < n && rand_r(&seed) % 8 ? a[i] : rand_r(&seed) % letters;
        similarity_same("random words", mt_levenshtein(a, n, b, m), similarity_table(a, n, b, m));
        similarity_same("exchanged", mt_levenshtein(b, m, a, n), similarity_table(a, n, b, m));
    }
}

int main(void)
{
    similarity_same("kitten, sitting", similarity_words("kitten", "sitting"), 3);
    similarity_same("flaw, lawn", similarity_words("flaw", "lawn"), 2);
    similarity_same("intention, execution", similarity_words("intention", "execution"), 5);
    similarity_same("same", similarity_words("gumbo", "gumbo"), 0);
    similarity_same("nothing", similarity_words("", "abc"), 3);
    similarity_same("nothing twice", similarity_words("", ""), 0);
    random_words();
    puts(failed ? "FAILED" : "edit distances are right");
    return failed;
}
