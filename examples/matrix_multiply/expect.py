"""Analytic expectations of matrix_multiply: arguments are launches, width of A, height of A, width of B."""
DEFAULTS = [1, 320, 320, 640]
QUICK = [2, 64, 96, 128]
TILE = 32
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "ta[y][x] = a[row * wa + k + x];": ["load 4"],
    "tb[y][x] = b[(k + y) * wb + column];": ["load 4"],
    "c[row * wb + column] = sum;": ["store 4"],
}


def launches(args, opt):
    count, wa, ha, wb = args
    gx, gy = wb // TILE, ha // TILE
    cta = {("load", 4): 2 * wa // TILE * TILE * TILE, ("store", 4): TILE * TILE}
    ctas = {(x, y, 0): cta for x in range(gx) for y in range(gy)}
    return [dict(kernel="matrix_multiply", stream=0, grid=(gx, gy, 1), block=(TILE, TILE, 1), ctas=ctas)] * count


def transfers(args):
    """Nobody: all that the kernel reads, the host wrote."""
    return {}
