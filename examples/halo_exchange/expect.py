"""What halo_exchange moves from device to device, and what its kernels load and store, by hand."""


def expected(devices, copies=False, width=128, rows=32, steps=8):
    """{(by, from, to): bytes} of all steps; places are numbers of devices, or "host"."""
    out, inner = {}, 4 * (width - 2)  # a row without the cells at its ends

    def add(by, source, target, size):
        out[by, source, target] = out.get((by, source, target), 0) + size
    for d in range(devices):
        beyond = [o for o in (d - 1, d + 1) if 0 <= o < devices]
        held = rows - (2 - len(beyond))  # rows whose cells have four neighbours
        add("copy", "host", d, 4 * width * rows)
        add("copy", d, "host", 4 * width * rows)
        add("store", d, d, steps * 4 * width * rows)
        # Cells that change load four others, the rest themselves.
        own = 4 * (4 * (width - 2) * held + 2 * rows + (width - 2) * (rows - held))
        for o in beyond:
            if copies:
                add("copy", o, d, steps * 4 * width)
            else:
                add("load", o, d, steps * inner)
                own -= inner
        add("load", d, d, steps * own)
    return out
