"""Prints three steps of torch.optim.SGD with momentum that momentum_test.cc expects."""

import torch

parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
for gradient in [0.5, -1.0, 0.25]:
    parameter.grad = torch.tensor([gradient])
    optimizer.step()
    print(f"{parameter.item():.7f} {optimizer.state[parameter]['momentum_buffer'].item():.7f}")
