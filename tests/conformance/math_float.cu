// The math library of CUDA in single precision.
#include "map.h"
#define REAL float
#define F(name) name##f
#define BY(as_float, as_double) as_float
#include "math_functions.h"
// Beyond 105615 the reduction reads the six words of 2/pi from global memory.
ULP1_NAMED("sinf(a), a > 2e5", float, float, in(2e5, 1e30), 2, sinf(a), sinl(a))
ULP1_NAMED("cosf(a), a > 2e5", float, float, in(2e5, 1e30), 2, cosf(a), cosl(a))
ULP1_NAMED("tanf(a), a > 2e5", float, float, in(2e5, 1e30), 4, tanf(a), tanl(a))
TABLE("sinf(a), a > 2e5", 6, 4)
TABLE("cosf(a), a > 2e5", 6, 4)
TABLE("tanf(a), a > 2e5", 6, 4)
CONF_MAIN
