// The math library of CUDA in double precision.
#include "map.h"
#define REAL double
#define F(name) name
#define BY(as_float, as_double) as_double
#include "math_functions.h"
// Coefficients of sine and cosine lie in global memory.
TABLE("sin(a)", 3, 16)
TABLE("cos(a)", 3, 16)
TABLE("sinpi(a)", 3, 16)
TABLE("cospi(a)", 3, 16)
TABLE("sincos, sine", 3, 16)
TABLE("sincos, cosine", 3, 16)
TABLE("sincospi", 6, 16)
TABLE("tgamma(a)", -1, 16)
TABLE("j0(a), a > 8", -1, 16)
TABLE("j1(a), a > 8", -1, 16)
TABLE("y0(a), a > 8", -1, 16)
TABLE("y1(a), a > 8", -1, 16)
TABLE("jn(3, a)", -1, 16)
TABLE("yn(3, a)", -1, 16)
CONF_MAIN
