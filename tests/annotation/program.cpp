// As written for atomic-memory-trace's annotation.h, but for the header's name.
#include "memtrace/atomic_trace.h"

int main()
{
    int64_t *p = static_cast<int64_t *>(atomic_trace::special_malloc(sizeof *p));
    atomic_trace::register_thread(5);
    mt_register_thread(6);
    atomic_trace::start_roi();
    mt_start_roi();
    *p = 7;
    mt_end_roi();
    atomic_trace::end_roi();
    int result = static_cast<int>(*p) - 7;
    atomic_trace::special_free(p);
    return result;
}
