/* What a program sees of how it was started: its words, one variable, its standard input.
 * No library it must have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *variable = getenv("HELLO"), *host = getenv("MEMTRACE_HOST");
    char line[100];
    for (int i = 0; i < argc; i++)
        printf("<%s>", argv[i]);
    printf(" HELLO=%s MEMTRACE_HOST=%s\n", variable ? variable : "-", host ? host : "-");
    while (fgets(line, sizeof line, stdin))
        printf("read %s", line);
    return argc > 1 ? atoi(argv[1]) : 0;
}
