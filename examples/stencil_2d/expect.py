"""Analytic expectations of stencil_2d: arguments are tiles in x, tiles in y, steps."""
DEFAULTS = [4, 3, 4]
QUICK = [3, 3, 3]
TX, TY = 16, 8
KERNEL = "stencil_2d"
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "value = in[i];": ["load 4"],
    "value = (in[i - 1] + in[i + 1] + in[i - width] + in[i + width]) / 4;": ["load 4"],
    "out[i] = value;": ["store 4"],
}


def tile(x, y, gx, gy):
    """(columns, rows, cells) of tile (x, y) that are not on the domain's edge."""
    columns = TX - (x == 0) - (x == gx - 1)
    rows = TY - (y == 0) - (y == gy - 1)
    return columns, rows, columns * rows


def loads(x, y, gx, gy):
    inner = tile(x, y, gx, gy)[2]
    return 4 * inner + (TX * TY - inner)


def launches(args, opt):
    gx, gy, steps = args
    ctas = {(x, y, 0): {("load", 4): loads(x, y, gx, gy), ("store", 4): TX * TY}
            for x in range(gx) for y in range(gy)}
    return [dict(kernel=KERNEL, stream=0, grid=(gx, gy, 1), block=(TX, TY, 1), ctas=ctas)] * steps


def ghosts(x, y, gx, gy):
    """{neighbour tile: cells loaded from it}: a west or east neighbour gives one cell per inner row, a north or
    south neighbour one cell per inner column. (Cells on the domain's edge are copied, they ask no neighbour.)"""
    columns, rows, _ = tile(x, y, gx, gy)
    out = {}
    for dx, dy, cells in ((-1, 0, rows), (1, 0, rows), (0, -1, columns), (0, 1, columns)):
        if 0 <= x + dx < gx and 0 <= y + dy < gy:
            out[x + dx, y + dy] = cells
    return out


def transfers(args):
    """{(source kernel, CTA, superstep, kernel, CTA, superstep): (bytes, accesses)}."""
    gx, gy, steps = args
    out = {}
    for step in range(1, steps):
        for x in range(gx):
            for y in range(gy):
                own = loads(x, y, gx, gy)
                for (nx, ny), cells in ghosts(x, y, gx, gy).items():
                    out[KERNEL, (nx, ny, 0), step - 1, KERNEL, (x, y, 0), step] = (4 * cells, cells)
                    own -= cells
                out[KERNEL, (x, y, 0), step - 1, KERNEL, (x, y, 0), step] = (4 * own, own)
    return out


def host_bytes(args):
    """{superstep: bytes loaded that a host copy wrote}."""
    gx, gy, steps = args
    total = {0: 0}
    for x in range(gx):
        for y in range(gy):
            total[0] += 4 * loads(x, y, gx, gy)
    return total
