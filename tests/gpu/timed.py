"""Runs a case in a process of its own, with an end: a case that hangs on a GPU must not take the others' time. What the case
and its programs print goes to the log as it comes, so it is kept when the case is ended."""
import os
import signal
import subprocess
import sys
import time
import traceback

GRACE = 5  # seconds between SIGTERM and SIGKILL
XID = "dmesg 2>/dev/null | grep -i xid | tail -20"  # what the driver says of GPUs that fail


class Skipped(Exception):
    """A case cannot run here; says why."""


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
    except BaseException as why:  # SystemExit, too: it is no success
        traceback.print_exc()
        words = f"FAILED: {why}"
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(write, "w") as out:
        out.write(words)
    os._exit(0)


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
        verdicts, rows = [], []
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
