"""Analytic expectations of stencil_1d: arguments are CTAs, threads per CTA, steps."""
DEFAULTS = [8, 128, 4]
QUICK = [5, 32, 3]
RADIUS = 3
KERNEL = "stencil_1d"
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "tile[RADIUS + t] = in[i];": ["load 4"],
    "tile[t] = in[left];": ["load 4"],
    "tile[RADIUS + width + t] = in[right];": ["load 4"],
    "out[i] = sum / (2 * RADIUS + 1);": ["store 4"],
}


def neighbours(x, count):
    return [n for n in (x - 1, x + 1) if 0 <= n < count]


def launches(args, opt):
    count, threads, steps = args
    ctas = {}
    for x in range(count):
        ctas[x, 0, 0] = {("load", 4): threads + RADIUS * len(neighbours(x, count)), ("store", 4): threads}
    return [dict(kernel=KERNEL, stream=0, grid=(count, 1, 1), block=(threads, 1, 1), ctas=ctas)] * steps


def transfers(args):
    """{(source kernel, CTA, superstep, kernel, CTA, superstep): (bytes, accesses)}.

    A CTA reads its own cells and RADIUS cells of each neighbour, all written in the step before; in step 0
    the host wrote them."""
    count, threads, steps = args
    out = {}
    for step in range(1, steps):
        for x in range(count):
            out[KERNEL, (x, 0, 0), step - 1, KERNEL, (x, 0, 0), step] = (4 * threads, threads)
            for n in neighbours(x, count):
                out[KERNEL, (n, 0, 0), step - 1, KERNEL, (x, 0, 0), step] = (4 * RADIUS, RADIUS)
    return out


def host_bytes(args):
    """{superstep: bytes loaded that a host copy wrote}."""
    count, threads, steps = args
    return {0: 4 * (count * threads + RADIUS * 2 * (count - 1))}
