/* The end of the process: what is under way ends, and files get their ends. */
#include "api/device/device.h"
#include "stream.h"
#include "device/gpu.h"
#include "base/file.h"
#include "base/report.h"
#include "trace/nvtx.h"

/* Last of all, after the program's own exit handlers. */
__attribute__((destructor)) static void finish_process(void)
{
    int gpu = mt_device_chosen_gpu();
    if (!mt_forked() && gpu && mt_gpu() && mt_gpu()->finish)
        mt_gpu()->finish();
    if (!gpu)
        mt_stream_finish();
    mt_failed_finish();
    mt_nvtx_finish();
    mt_trace_finish();
    if (!mt_forked())
        mt_report_again();
}
