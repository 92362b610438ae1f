#!/usr/bin/env python3
"""No function in which pthread_cancel may end a thread is called by libmemtrace.so's own objects, except through
runtime/base/uncancelled.c.

usage: check_cancel.py runtime/CMakeLists.txt OBJECT...
"""
import re
import subprocess
import sys

# pthreads(7): required points of cancellation, and of the optional ones those that glibc has and we could come to use.
POINTS = """accept aio_suspend clock_nanosleep close connect creat fdatasync fsync getmsg getpmsg lockf mq_receive
mq_send mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep open open64 openat openat64 pause poll pread pread64
pselect pthread_cond_timedwait pthread_cond_wait pthread_cond_clockwait pthread_join pthread_timedjoin_np
pthread_testcancel putmsg putpmsg pwrite pwrite64 read readv recv recvfrom recvmsg select sem_timedwait sem_wait send
sendmsg sendto sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice ppoll epoll_wait system tcdrain usleep
wait wait3 wait4 waitid waitpid write writev
fclose fflush fgetc fgets fopen fopen64 fprintf fputc fputs fread freopen fscanf fwrite getc getline getdelim popen
printf putc putchar puts syslog vfprintf vprintf""".split()
# With checks, as some compilers have them by default.
POINTS += [f"__{name}_chk" for name in POINTS] + ["__open_2"]
# Their objects are the wrappers, and the thread that watches for the end of the others, which is nobody's to cancel.
OWN = re.compile(r"/(uncancelled|last)\.c\.o$")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        wrapped = set(re.search(r"foreach\(name (close .*?)\)", f.read(), re.S)[1].split())
    used = {}
    for o in sys.argv[2:]:
        if OWN.search(o):
            continue
        for line in subprocess.run(["nm", "--undefined-only", o], text=True, check=True, capture_output=True).stdout.splitlines():
            used.setdefault(line.split()[-1], o)
    wrong = [f"{name} in {used[name]}" for name in POINTS if name in used and name not in wrapped]
    print(f"{len(sys.argv) - 2} objects, {len(wrapped & used.keys())} of {len(wrapped)} wrappers used")
    print("\n".join(wrong))
    return 1 if wrong or len(wrapped & used.keys()) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
