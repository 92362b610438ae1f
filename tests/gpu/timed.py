"""Runs a case in a process of its own, with an end: a case that hangs on a GPU must not take the others' time. What the case
and its programs print goes to the log as it comes, so it is kept when the case is ended; of one that hangs also where all of its
threads are."""
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback

GRACE = 5  # seconds between SIGTERM and SIGKILL
STACKS = 10  # seconds for gdb to say where a program's threads are
XID = "dmesg 2>/dev/null | grep -i xid | tail -20"  # what the driver says of GPUs that fail


class Skipped(Exception):
    """A case cannot run here; says why."""


class Hung(Exception):
    """A program of a case did not end."""


class Budget:
    """`seconds` for all cases together (None: no end), `limit` for each."""

    def __init__(self, seconds, limit):
        self.end, self.limit = seconds and time.monotonic() + seconds, limit

    def share(self):
        """Seconds for the next case; 0: it does not fit any more, with the time that ending it would take."""
        left = self.end - time.monotonic() - GRACE if self.end else self.limit
        return max(0, min(self.limit, left))


def child(function, write, log):
    """Never returns: one line of the verdict, and more in the log."""
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        figures = function()
        words = f"ok: {figures}" if figures else "ok"
    except Skipped as why:
        words = f"skipped: {why}"
    except Hung as why:
        words = f"HUNG: {why}"
    except BaseException as why:  # SystemExit, too: it is no success
        traceback.print_exc()
        words = f"FAILED: {why}"
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(write, "w") as out:
        out.write(words)
    os._exit(0)


# ---- where the threads of a case are ----------------------------------------------------------------


def read(*path):
    """A file of /proc's, or nothing: the thread may have ended, or another user may not look."""
    try:
        with open(os.path.join("/proc", *map(str, path)), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def session(leader):
    """The processes that a case has, but itself."""
    stats = {pid: read(pid, "stat").rpartition(")")[2].split() for pid in os.listdir("/proc") if pid.isdigit()}
    return sorted(int(pid) for pid, words in stats.items() if len(words) > 3 and int(words[3]) == leader and int(pid) != leader)


def place(pid, address):
    """FILE+0x… of an address in a process."""
    for line in read(pid, "maps").splitlines():
        words = line.split()
        begin, end = (int(word, 16) for word in words[0].split("-"))
        if begin <= address < end:
            return f"{os.path.basename(words[5]) if len(words) > 5 else '?'}+0x{address - begin + int(words[2], 16):x}"
    return hex(address)


def thread(pid, task):
    """One line, and the kernel's stack where that may be read."""
    words, waits = read(pid, "task", task, "syscall").split(), read(pid, "task", task, "wchan").strip()
    state = read(pid, "task", task, "stat").rpartition(")")[2].split()[:1]
    at = f"system call {words[0]} at {place(pid, int(words[-1], 16))}" if len(words) > 2 else " ".join(words)
    line = f"  thread {task} ({read(pid, 'task', task, 'comm').strip()}) {''.join(state)}: {at} {waits}"
    return "\n".join([line, *("    " + frame for frame in read(pid, "task", task, "stack").splitlines())])


def stacks(leader, log):
    """Where all threads of a case's programs are: from /proc, and by gdb where it is."""
    for pid in session(leader):
        tasks = sorted(os.listdir(f"/proc/{pid}/task"), key=int) if os.path.isdir(f"/proc/{pid}/task") else []
        lines = [f"process {pid}: {read(pid, 'cmdline').replace(chr(0), ' ')}", *(thread(pid, task) for task in tasks)]
        os.write(log, ("\n".join(lines) + "\n").encode())
        if shutil.which("gdb"):
            try:
                subprocess.run(["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 25"], stdin=subprocess.DEVNULL, stdout=log,
                               stderr=log, timeout=STACKS)
            except (OSError, subprocess.TimeoutExpired) as why:
                os.write(log, f"{why}\n".encode())


def call(words, seconds, **more):
    """A finished process with its words, for a case. Of one that hangs the log gets its words and where its threads are; raises Hung."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace", **more) as process:
        try:
            out, err = process.communicate(timeout=seconds)
            return subprocess.CompletedProcess(words, process.returncode, out, err)
        except subprocess.TimeoutExpired:
            try:
                stacks(os.getpid(), 1)
            finally:
                signal_others()
                process.kill()
            out, err = process.communicate()
            print(f"$ {' '.join(words)}: hangs\n{out[-3000:]}{err[-6000:]}", flush=True)
            raise Hung(f"{os.path.basename(words[0])} did not end in {seconds:.0f} s") from None


def signal_others():
    """Ends all programs of this case."""
    for pid in session(os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def ended(pid, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    return False


def signal_group(pid, number):
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def run(function, seconds, log):
    """(verdict, seconds it took). `log`: a file descriptor. Verdicts: "ok", "ok: figures", "skipped: why", "FAILED: why",
    "HUNG: ...".
    All that the case started and left in its process group is ended with it."""
    begin = time.monotonic()
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        child(function, write, log)
    os.close(write)
    words = None
    try:
        in_time = ended(pid, seconds)
    except BaseException:  # Ctrl-C reaches this process alone
        signal_group(pid, signal.SIGKILL)
        raise
    if not in_time:
        words = f"HUNG: ended after {seconds:.0f} s"
        stacks(pid, log)
        signal_group(pid, signal.SIGTERM)
        if not ended(pid, GRACE):
            words += ", by SIGKILL"
            signal_group(pid, signal.SIGKILL)
            if not ended(pid, GRACE):
                words += ", and lives on (waits in the driver?)"
    signal_group(pid, signal.SIGKILL)
    os.set_blocking(read, False)  # a program that lives on may hold the other end
    try:
        said = os.read(read, 1 << 16).decode()
    except BlockingIOError:
        said = ""
    os.close(read)
    return words or said or "FAILED: the case ended without a verdict", time.monotonic() - begin


class Report:
    """Prints a line per case, and keeps all words in one file."""

    def __init__(self, path):
        self.rows = []  # (name, verdict, seconds, figures or why) of all cases
        self.log = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def say(self, words):
        print(words, flush=True)
        os.write(self.log, (words + "\n").encode())

    def machine(self, versions):
        """What the machine is, into the log; a command that is not there or hangs is nothing. `versions`: a file's path."""
        for command in (["date"], ["uname", "-a"], ["cat", versions], ["nvidia-smi"], ["sh", "-c", XID]):
            self.command(command)

    def command(self, command):
        os.write(self.log, f"$ {' '.join(command)}\n".encode())
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, timeout=20)
        except (OSError, subprocess.TimeoutExpired) as why:
            os.write(self.log, f"{why}\n".encode())

    def cases(self, functions, budget):
        """functions: (name, function). The verdicts in order: "ok", "skipped", "failed", "not run"."""
        verdicts, rows = [], self.rows
        for name, function in functions:
            seconds = budget.share()
            if seconds < 1:
                self.say(f"{name}: not run, no time is left")
                verdicts.append("not run")
                rows.append((name, "not run", 0, ""))
                continue
            os.write(self.log, f"---- {name}\n".encode())
            words, took = run(function, seconds, self.log)
            self.say(f"{name}: {words} ({took:.1f} s)")
            verdicts.append(next((word for word in ("ok", "skipped") if words.startswith(word)), "failed"))
            rows.append((name, verdicts[-1], took, words.partition(": ")[2].partition("\n")[0]))
            if words.startswith("HUNG"):
                self.command(["nvidia-smi"])  # does the GPU live?
        self.table(rows)
        return verdicts

    def table(self, rows):
        os.write(self.log, b"---- all cases: verdict, seconds, case, figures or why\n")
        for name, verdict, took, more in rows:
            os.write(self.log, f"{verdict:8} {took:7.1f}  {name}  {more}\n".encode())
