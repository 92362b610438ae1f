// bfloat16 (__nv_bfloat16, __nv_bfloat162): arithmetic, comparisons, conversions, functions.
#define NUMBER __nv_bfloat16
#define WORD bfloat16
#define ONE b16
#define PAIR b162
#define VALUE bf16_of
#define NEAREST to_bf16
#define ULPS 2 * 65536
enum { INF = 0x7f80, UNIT = 0x3f80, LARGEST = 0x7f7f, FIRST = 0x3d80, SPAN = 0x4100 - 0x3d80 };
#include "sixteen.h"

CONF_MAIN
