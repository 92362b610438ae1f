#include <stdio.h>
#include <string.h>

struct node {
    struct node *next;
    long value;
};

int main(void)
{
    struct node n[50];
    long sum = 0;
    char text[64];
    for (int i = 0; i < 50; i++)
        n[i] = (struct node){i < 49 ? &n[i + 1] : NULL, i};
    for (int r = 0; r < 20; r++)
        for (struct node *p = n; p; p = p->next)
            sum += p->value;
    snprintf(text, sizeof text, "%ld", sum);
    return strlen(text) == 0;
}
