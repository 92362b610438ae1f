"""PyTorch's own kernels are machine code: each call of them is an error. Copies and products of matrices are not theirs."""
import torch


def fails(operation, *operands):
    try:
        operation(*operands)
        torch.cuda.synchronize()
    except RuntimeError as why:
        return "no kernel image is available" in str(why)
    return False


a, b = torch.randn(32, 16), torch.randn(16, 8)
x, y = a.cuda(), b.cuda()
assert torch.allclose((x @ y).cpu(), a @ b, atol=1e-4)
assert torch.equal(x.clone().cpu(), a)
assert torch.equal(torch.zeros(5, device="cuda").cpu(), torch.zeros(5))
assert fails(torch.add, x, x)
assert fails(torch.add, x, x)
assert fails(torch.mul, x, x)
assert fails(torch.relu, x)
print("right")
