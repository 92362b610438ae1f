"""Tensors of PyTorch, each an allocation of its own (PYTORCH_NO_CUDA_MEMORY_CACHING=1); beside each line stands what it makes is called."""
import torch
import triton
import triton.language as tl


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(333, 7).cuda())  # NAME self.w
        self.b = torch.empty(334, device="cuda")  # NAME self.b


def make(n):
    return torch.empty(n, device="cuda")


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)


net = Net()
x = torch.arange(777, dtype=torch.float32).to("cuda")  # NAME x
table = {"k": torch.ones(555).cuda()}  # NAME table['k']
parts = [torch.empty(100 + i, device="cuda") for i in range(2)]  # NAME parts[] parts[]
y = make(999)  # NAME y
s, t = torch.ones(2222).cuda(), torch.ones(2223).cuda()  # NAME s t
e = torch.empty_like(s)  # NAME e
layer = torch.nn.Linear(40, 50).to("cuda")  # NAME layer layer
view = torch.ones(1001).cuda()[:1000]  # NAME view
copy[(1,)](x, y, 700, 1024)
assert (y.cpu()[:700] == torch.arange(700)).all()
print("right")
