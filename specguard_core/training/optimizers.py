"""Muon for the hidden matrices, AdamW for embeddings and norms. Knows no data and no schedule.

Muon: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/ : momentum, orthogonalised by
five Newton-Schulz steps, scaled to the size of an AdamW update (Liu et al. 2025, arXiv:2502.16982).
Here in fp32, with all matrices of one shape in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalised(matrices: Tensor, n_rounds: int = 5) -> Tensor:
    """[count, rows, columns] -> the same, singular values pushed towards 1."""
    a, b, c = _COEFFICIENTS
    flip = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.mT if flip else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(n_rounds):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if flip else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum with orthogonalised updates; for parameters of two dimensions."""

    def __init__(
        self, params: list[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for parameters in by_shape.values():
                self._update(parameters, group)
        return closure() if closure else None

    def _update(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        grads = [p.grad for p in parameters if p.grad is not None]
        for parameter in parameters:
            if "momentum" not in self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momenta = [self.state[p]["momentum"] for p in parameters]
        torch._foreach_lerp_(momenta, grads, 1 - group["momentum"])
        looking_ahead = torch._foreach_lerp(grads, momenta, group["momentum"])
        updates = orthogonalised(torch.stack(looking_ahead))
        scale = 0.2 * max(parameters[0].shape) ** 0.5
        weights: list[Tensor] = list(parameters)
        torch._foreach_mul_(weights, 1 - group["lr"] * group["decay"])
        torch._foreach_add_(weights, list(updates.unbind()), alpha=-group["lr"] * scale)


def optimizers_for(model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for the rest, at one common learning rate."""
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and ".layers." in name]
    rest = [p for name, p in named if not (p.ndim == 2 and ".layers." in name)]
    adam = torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.98), weight_decay=0.0)
    return [Muon(matrices, lr=lr), adam]
