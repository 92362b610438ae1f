#include "words.h"
#include "memtrace/record.h"
#include "output/rows/names.h"
#include <string.h>

int mt_of_threads;

const char *mt_words_type(unsigned type)
{
    return mt_of_threads && type == MT_ATOMIC ? "update" : mt_access_types[type];
}

const char *mt_words_cta(char *out, uint64_t order)
{
    return mt_of_threads ? mt_key_u64(out, order & 0xffffffff) : mt_cta_key(out, order);
}

const char *mt_words_head(const char *column)
{
    static const char *const heads[][2] = {{"kernel", "program"},
                                           {"CTA", "thread"},
                                           {">launch", ">run"},
                                           {">launches", ">runs"},
                                           {">last launch", ">last run"},
                                           {">earlier launch", ">earlier run"},
                                           {">same launch", ">other thread"},
                                           {">same CTA", ">same thread"},
                                           {">pairs of CTAs", ">pairs of threads"}};
    for (size_t i = 0; mt_of_threads && i < sizeof heads / sizeof *heads; i++)
        if (strcmp(heads[i][0], column) == 0)
            return heads[i][1];
    return column;
}
