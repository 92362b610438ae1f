#include "version.h"

__attribute__((visibility("default"))) unsigned mt_runtime_version(void)
{
    return MT_UTILS_VERSION;
}
