/* Lists in the page's data (page.def): {"columns": [names], "rows": [[values]]}, and in few bytes, where all
 * are numbers, {"columns": [names], "keys": how many of them are of a group, "count": rows, "data": LEB128 in
 * base64}: of each group its keys, its number of rows, and these; of the first column of a row the step from
 * the row before. Values go in as into tables (output/rows/relations.h). */
#ifndef MT_PAGE_PAGE_LIST_H
#define MT_PAGE_PAGE_LIST_H
#include "output/json/json.h"
#include "output/rows/relations.h"

enum mt_page_list {
#define MT_LIST(name, columns) MT_PAGE_##name,
#include "page.def"
    MT_PAGE_LISTS
};

/* A list under way: an object, into which the caller may write members before the first row of a pack.
 * After the values of a row (mt_tuples_number(&p->w, …) and so on) comes mt_page_row. The end returns 0, or
 * -1 without memory. */
struct mt_page_rows {
    struct mt_tuples w;
    struct mt_relation list;
    struct mt_column columns[MT_RELATION_COLUMNS];
    char names[300];
    struct mt_json *j;
    unsigned keys; /* 0: it is no pack */
    int failed;
    unsigned char *bytes; /* of a pack */
    size_t n, room;
    uint64_t *group; /* rows of the group under way, without its keys */
    size_t ngroup, group_room, count;
    uint64_t key[MT_RELATION_COLUMNS];
};
void mt_page_begin(struct mt_page_rows *p, struct mt_json *j, enum mt_page_list list);
void mt_page_row(struct mt_page_rows *p);
int mt_page_end(struct mt_page_rows *p);
/* The member "columns": names of the columns of lists that come with sections of comm.json. */
void mt_page_names(struct mt_json *j);
#endif
