"""What halo_exchange moves from device to device, and what its kernels load and store, by hand.

Arguments: width, rows of a band, steps; the rows beyond a band are loaded from where they are."""
DEFAULTS = [128, 32, 8]
DEVICES = 4  # in the demo
TX, TY = 32, 8
SITES = {
    "out[i] = in[i];": ["load 4", "store 4"],
    "out[i] = (in[i - 1] + in[i + 1] + *up + *down) / 4;": ["load 4"] * 4 + ["store 4"],
}


def launches(args, opt, devices=DEVICES):
    """A launch for each device and step; streams count from 0 here."""
    width, rows, steps = args
    out = []
    for d in range(devices):
        ctas = {}
        for cy in range(-(-rows // TY)):
            for cx in range(-(-width // TX)):
                across = range(cx * TX, min((cx + 1) * TX, width))
                down = range(cy * TY, min((cy + 1) * TY, rows))
                inner = len([x for x in across if 0 < x < width - 1]) * \
                    len([y for y in down if 0 < d * rows + y < devices * rows - 1])
                cells = len(across) * len(down)
                ctas[cx, cy, 0] = {("load", 4): 4 * inner + cells - inner, ("store", 4): cells}
        out.append(dict(kernel="step", stream=d, grid=(-(-width // TX), -(-rows // TY), 1), block=(TX, TY, 1), ctas=ctas))
    return out * steps


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
