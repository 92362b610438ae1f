"""The five lines that a run ends with: what somebody must know who decides whether memtrace can be used on this machine."""
import os
import re

import cases_probe


def driver():
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            found = re.search(r"\b(\d{3}\.[\d.]+)\b", file.read())
    except OSError:
        return "there is no driver"
    return f"driver {found[1]}" if found else "driver of an unknown version"


def fits(rows, world):
    """From the probe, and what memtrace run would take."""
    kept = cases_probe.noted(world)
    probe = f"none has been seen to fit ({of(rows, 'probe: which')[1]})"
    if kept:
        probe = f"{os.path.relpath(kept[0], world.build)} with {os.path.basename(kept[1])} by {kept[2]}: {kept[3]}"
    verdict, run = of(rows, "injection: what is found")
    return f"{driver()}; the probe: {probe}; memtrace run: {run if verdict == 'ok' and run else verdict}"


def of(rows, begin):
    """(verdict, figures or why) of a case."""
    return next(((verdict, more) for name, verdict, _, more in rows if name.startswith(begin)), ("not run", "not run"))


def right(rows):
    counted = [(name, verdict) for name, verdict, *_ in rows if not name.startswith("probe") and verdict in ("ok", "failed")]
    wrong = [name for name, verdict in counted if verdict == "failed"]
    return f"{len(counted) - len(wrong)} of {len(counted)} cases" + (f", not: {', '.join(wrong)}" if wrong else "")


def first(rows):
    """What hangs goes before what fails: it takes the others' time."""
    bad = [(name, more) for name, verdict, _, more in rows if verdict == "failed"]
    hangs = [(name, more) for name, more in bad if more.startswith(("ended after", "mt-run did not end", "program did not end"))]
    return ": ".join((hangs or bad or [("nothing", "all cases that ran are good")])[0])[:300]


def slow(rows):
    return "; ".join(f"{more}" for verdict, more in (of(rows, "injection: time and bytes"), of(rows, "injection: the bus")) if verdict == "ok") or "not measured"


def lines(rows, world):
    where = "" if world.injects else " on the CPU device"
    verdict, why = of(rows, "injection: vector_add")
    traced = "yes" if verdict == "ok" else verdict if verdict == why else f"{verdict} ({why[:200]})"
    yield f"1. library and patches: {fits(rows, world)}"
    _, tries = of(rows, "injection: what to do without")
    yield f"2. launches are traced{where}: {traced}" + ("" if traced == "yes" else f"; {tries}")
    yield f"3. figures are right: {right(rows)}"
    yield f"4. hangs or fails first: {first(rows)}"
    yield f"5. how slow{where}: {slow(rows)}"
