"""Analytic expectations of memcpy_forms: arguments are rows (CTAs), columns (threads per CTA)."""
DEFAULTS = [6, 50]
QUICK = [3, 33]
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "out[i] = in[i];": ["load 8", "store 8"],
    "memcpy(out + i * STRIDE, in + i * STRIDE, i % 4 * 8);": ["load 1", "store 1"],
    "row[threadIdx.x] *= 2;": ["load 4", "store 4"],
    "out[i] = i * coefficients[i % 4] + offsets[i % 4];": ["load 4", "store 4"],
    "int value = values[i];": ["load 4"],
    "values[i] = value * value;": ["store 4"],
}


def launches(args, opt):
    rows, columns = args
    shape = dict(stream=0, grid=(rows, 1, 1), block=(columns, 1, 1))

    def same(kernel, cta):
        return dict(shape, kernel=kernel, ctas={(r, 0, 0): cta for r in range(rows)})

    blocks = {}
    for r in range(rows):
        ids = range(r * columns, (r + 1) * columns)
        copied = sum(i % 4 * 8 for i in ids)  # a copy of unknown length is a loop over bytes
        blocks[r, 0, 0] = {("load", 1): copied, ("store", 1): copied}
    one = {("load", 4): columns, ("store", 4): columns}
    return [same("copy_structs", {("load", 8): 3 * columns, ("store", 8): 3 * columns}),
            dict(shape, kernel="copy_blocks", ctas=blocks),
            same("double_pitched", one),
            same("use_symbols", one),
            same("square_managed", one)]


def transfers(args):
    """Nobody: all that kernels read, the host wrote, also where an address is used a second time."""
    return {}
