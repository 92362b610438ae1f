/* Which of the two tools to be:
 * the executable's own name says it (overlay/bin/ptxas, overlay/bin/fatbinary). */
#include <stdlib.h>
#include <string.h>
#include "cudabin.h"

int main(int argc, char **argv)
{
    struct tool tool;
    if (mt_cudabin_tool_find(&tool) != 0) {
        return 1;
    }
    mt_cudabin_process_guard();
    int code = strcmp(tool.name, "ptxas") == 0 ? mt_cudabin_ptxas_main(&tool, argc, argv)
                                               : mt_cudabin_fatbinary_main(&tool, argc, argv);
    mt_cudabin_temp_remove();
    free(tool.real);
    return mt_cudabin_process_exit_code(code);
}
