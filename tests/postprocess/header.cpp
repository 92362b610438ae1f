// The public headers are C++ too.
#include "memtrace/trace.h"

int main()
{
    mt_error err;
    mt_reader *r = mt_reader_open("/", nullptr, &err);
    mt_raw_record record = mt_rec_pack(1, MT_STORE, 4, 16, mt_rec_cta(1, 2, 3));
    return r == nullptr && err.code == MT_E_INPUT && mt_rec_cta_y(&record) == 2 ? 0 : 1;
}
