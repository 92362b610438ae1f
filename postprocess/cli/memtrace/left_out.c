/* Commands whose part was left out of the build; they report that. */
#include "cli/base/cli.h"
#include "cli/base/commands.h"

#define LEFT_OUT(word, part)                                                                                 \
    int mt_##word##_command(int argc, char **argv)                                                           \
    {                                                                                                        \
        (void)argc, (void)argv;                                                                              \
        return mt_cli_left_out(part);                                                                        \
    }
#ifdef MT_WITHOUT_PAGE
LEFT_OUT(report, MT_PART_PAGE)
#endif
#ifdef MT_WITHOUT_HOST
LEFT_OUT(host, "host")
#endif
#ifdef MT_WITHOUT_CONVERT
LEFT_OUT(convert, "convert")
#endif
