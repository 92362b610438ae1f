"""PyTorch's eager operators, whose kernels are machine code: a sum, a product of matrices, a step of an optimiser."""
import torch

x = torch.arange(1024, dtype=torch.float32)
y = x.cuda()
assert torch.equal((y + y).cpu(), x + x)
model = torch.nn.Linear(64, 64).cuda()
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(3):
    loss = model(torch.ones(32, 64, device="cuda")).square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[2] < losses[0], losses
print("right")
