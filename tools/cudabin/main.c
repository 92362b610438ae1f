/* Which of the two tools to be: the executable's own name says it (overlay/bin/ptxas, overlay/bin/fatbinary).
 */
#include <stdlib.h>
#include <string.h>
#include "cudabin.h"

int main(int argc, char **argv)
{
    struct tool tool;
    if (tool_find(&tool) != 0) {
        return 1;
    }
    process_guard();
    int code =
        strcmp(tool.name, "ptxas") == 0 ? ptxas_main(&tool, argc, argv) : fatbinary_main(&tool, argc, argv);
    temp_remove();
    free(tool.real);
    return process_exit_code(code);
}
