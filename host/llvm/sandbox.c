/* Programs that restrict their system calls (seccomp). We need some that they do not: for writing, start
 * and waits. A forbidden one may end the program, so the trace ends before, and we make none from then on. */
#include "entry.h"
#include "../core/platform.h"
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SET_SECCOMP 22 /* prctl's number */
#define SET_FILTER 1   /* seccomp's operations up to this one restrict */

static void sandbox_restricted(void)
{
    if (mt_phase == MT_PHASE_ON) {
        mt_core_incomplete(
            "the program restricts its system calls (seccomp): the trace ends here, incomplete");
        mt_stop(0);
    }
    mt_signals_close();
    mt_silent = 1;
}

/* Makes a call as the C library does: unused arguments are passed on as they are. */
static long sandbox_call(long number, const long *a)
{
    long rc = mt_sys(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if ((unsigned long)rc <= -4096ul)
        return rc;
    errno = (int)-rc;
    return -1;
}

MT_ENTRY int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    if (option == SET_SECCOMP)
        sandbox_restricted();
    return (int)sandbox_call(SYS_prctl, (long[]){option, (long)a, (long)b, (long)c, (long)d, 0});
}

MT_ENTRY long syscall(long number, ...)
{
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if ((number == SYS_seccomp && a[0] <= SET_FILTER) || (number == SYS_prctl && a[0] == SET_SECCOMP))
        sandbox_restricted();
    if (number == SYS_close_range)
        return close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
    return sandbox_call(number, a);
}
