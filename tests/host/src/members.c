/* Members of structs by name, through pointers, arrays and other members; names that end in digits. */
#include <stdio.h>
#include <stdlib.h>

struct point {
    double x1, y2;
};
struct node {
    struct point at;
    struct node *next;
    int kind;
};

int main(void)
{
    enum { N = 100 };
    struct node *list = calloc(N, sizeof *list);
    double s = 0;
    for (int i = 0; i < N; i++) {
        list[i].next = &list[(i + 7) % N];
        list[i].at.y2 = i;
        list[i].kind = i % 3;
    }
    struct node *walk = list;
    for (int i = 0; i < 1000; i++) {
        s += walk->at.y2;
        walk = walk->next;
    }
    for (int i = 0; i < N; i++)
        s += list[i].kind;
    printf("%f %p\n", s, (void *)walk);
    free(list);
    return 0;
}
