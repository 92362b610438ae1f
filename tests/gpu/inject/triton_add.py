"""A Triton kernel on PyTorch's tensors: 1,000 floats, so 8,000 bytes loaded and 4,000 stored by `add`."""
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(z + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


x = torch.arange(1000, dtype=torch.float32)
a, b, c = x.cuda(), x.cuda(), torch.zeros(1000).cuda()
add[(4,)](a, b, c, 1000, BLOCK=256)
assert torch.equal(c.cpu(), 2 * x)
print("right")
