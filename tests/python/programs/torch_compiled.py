"""torch.compile: one kernel, and a step of training through the kernels and products of matrices that it makes."""
import copy

import torch
from torch import nn

ROWS, COLUMNS = 64, 100


def work(x, y):  # CALL triton_per_fused__softmax_add_mul_prepare_softmax_online_sum_0
    return torch.softmax(x * 2 + y, dim=1), (x + y).sum(dim=1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 8)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def loss(net, x, y):
    return nn.functional.cross_entropy(net(x), y)


def try_kernel():
    x, y = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    a, b = torch.compile(work)(x.cuda(), y.cuda())  # CALL h2d
    want = work(x, y)
    assert torch.allclose(a.cpu(), want[0], atol=1e-6)  # CALL d2h
    assert torch.allclose(b.cpu(), want[1], atol=1e-4)  # CALL d2h


def try_training():
    net, x, y = Net(), torch.randn(16, 32), torch.randint(0, 8, (16,))
    other = copy.deepcopy(net).cuda()
    want = loss(net, x, y)
    want.backward()
    got = torch.compile(loss)(other, x.cuda(), y.cuda())
    got.backward(torch.ones(()).cuda())
    assert abs(got.item() - want.item()) < 1e-5
    for p, q in zip(net.parameters(), other.parameters()):
        assert torch.allclose(p.grad, q.grad.cpu(), atol=1e-5)


torch.manual_seed(1)
assert torch.cuda.is_available()
try_kernel()
try_training()
torch.cuda.synchronize()
print("right")
