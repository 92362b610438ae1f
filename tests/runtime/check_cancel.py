#!/usr/bin/env python3
"""No function in which pthread_cancel may end a thread is called by libmemtrace.so's own objects, except through
runtime/uncancelled.c.

usage: check_cancel.py runtime/CMakeLists.txt OBJECT... [--archives OBJECT...]
Of those behind --archives the ones count that the linker takes: others need what they define.
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


def symbols(which, objects):
    """{object: names}"""
    found = {o: set() for o in objects}
    for line in subprocess.run(["nm", "-A", which, *objects], text=True, check=True, capture_output=True).stdout.splitlines() if objects else ():
        path, symbol = line.split(":", 1)
        found[path].add(symbol.split()[-1])
    return found


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        wrapped = set(re.search(r"foreach\(name (close .*?)\)", f.read(), re.S)[1].split())
    words = sys.argv[2:] + ["--archives"]
    at = words.index("--archives")
    used, objects, members = {}, words[:at], words[at + 1:-1]
    wanted, defined = symbols("--undefined-only", objects + members), symbols("--defined-only", members)
    while objects:
        for o in objects:
            for name in [] if OWN.search(o) else wanted[o]:
                used.setdefault(name, o)
        objects = [m for m in members if used.keys() & defined[m]]
        members = [m for m in members if m not in objects]
    wrong = [f"{name} in {used[name]}" for name in POINTS if name in used and name not in wrapped]
    print(f"{len(sys.argv) - 2 - len(members)} objects, {len(wrapped & used.keys())} of {len(wrapped)} wrappers used")
    print("\n".join(wrong))
    return 1 if wrong or len(wrapped & used.keys()) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
