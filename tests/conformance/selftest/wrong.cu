// Rows that do not hold, for cases.py: each must be found out. "right" must not.
#include "../map.h"

static __global__ void copy(const int *from, int *to)
{
    to[threadIdx.x] = from[threadIdx.x];
}

static void run_copy(conf::row &r, int error)
{
    conf::buffer<int> from(r, 32, [](long i) { return i * 5; }), to(r, 32);
    copy<<<1, 32>>>(from, to);
    to.is([error](long i) { return i * 5 + (i == 31 ? error : 0); });
}
ROW_OF("right", "nothing is wrong", run_copy(r, 0), r.loads(32, 4), r.stores(32, 4))
ROW_OF("right in bytes", "sizes differ, bytes do not", run_copy(r, 0), r.loads(16, 8), r.stores(32, 4),
       r.only_bytes())
ROW_OF("right at least", "a lower bound", run_copy(r, 0), r.at_least(conf::LOAD, 31, 4), r.stores(32, 4))
ROW_OF("wrong value", "one result of 32", run_copy(r, 1), r.loads(32, 4), r.stores(32, 4))
ROW_OF("wrong count", "one load too many is expected", run_copy(r, 0), r.loads(33, 4), r.stores(32, 4))
ROW_OF("wrong kind", "stores where loads are expected", run_copy(r, 0), r.loads(64, 4))
ROW_OF("wrong size", "bytes are right, sizes are not", run_copy(r, 0), r.loads(16, 8), r.stores(32, 4))
ROW_OF("wrong bytes", "compared in bytes", run_copy(r, 0), r.loads(17, 8), r.stores(32, 4), r.only_bytes())
ROW_OF("wrong least", "a lower bound that is too high", run_copy(r, 0), r.at_least(conf::LOAD, 33, 4),
       r.stores(32, 4))
ROW_OF("wrong untraced", "an access without a record that is not there", run_copy(r, 0), r.loads(32, 4),
       r.stores(32, 4), r.untraced(1))
ROW("wrong error", "a launch that fails")
{
    copy<<<1, 100000>>>(nullptr, nullptr);
}
MAP1_NAMED("wrong bits", int, int, -a, a ? -a : 1)
ULP1(float, float, in(1, 2), 0.9, nextafterf(a, 3) * 1.0f, (long double)a) // wrong: one unit off
CONF_MAIN
