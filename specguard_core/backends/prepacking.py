"""Linear layers whose weights lie in blocks, as oneDNN multiplies them. Knows no model by name.

prepacked   laid out once, when the model is loaded, for products of few rows. Writing a token reads
            every weight once; laid out by rows, as a checkpoint has them, bf16 weights are read
            at a third of the speed that the memory has, in blocks at nearly twice that
proved      on the layer itself: the same bits as before, for one row and for several that lie
            together
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

_PROVED_ROWS = (1, 3, 20)


class PrepackedLinear(nn.Module):
    """As nn.Linear, on a CPU. `weight` is opaque: only oneDNN reads it."""

    weight: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        """
        Raises:
            RuntimeError, AttributeError: this torch or this processor has no such layout.
        """
        super().__init__()
        packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), 1)
        self.register_buffer("weight", packed, persistent=False)
        self.bias = linear.bias

    def forward(self, rows: Tensor) -> Tensor:
        """[..., d] to [..., n]."""
        return multiply(rows, self.weight, self.bias)


def multiply(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As F.linear, with a prepacked weight; to a recorder, too, a function like those of torch."""
    if has_torch_function_unary(rows):
        told: Tensor = handle_torch_function(multiply, (rows,), rows, weight, bias)
        return told
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


@torch.inference_mode()
def prepack(model: Any) -> bool:
    """Exchange the model's bf16 linear layers, one by one; whether that could be done.

    The first layer of each shape is proved; where one fails, those after it stay as they are. An
    embedding that shares its weights with the output layer keeps them, beside the blocks.
    """
    proved: set[torch.Size] = set()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is not nn.Linear or child.weight.dtype != torch.bfloat16:
                continue
            try:
                prepacked = PrepackedLinear(child)
                if child.weight.shape not in proved and not _same(prepacked, child):
                    return False
            except (RuntimeError, AttributeError):
                return False
            proved.add(child.weight.shape)
            setattr(parent, name, prepacked)
    return bool(proved)


def _same(prepacked: PrepackedLinear, linear: nn.Linear) -> bool:
    """Whether both give the same bits."""
    size = linear.in_features
    places = torch.arange(max(_PROVED_ROWS) * size, dtype=torch.float32)
    rows = places.sin().to(linear.weight.dtype).view(1, -1, size)
    return all(
        torch.equal(prepacked(part), F.linear(part, linear.weight, linear.bias))
        for part in (rows[:, :count] for count in _PROVED_ROWS)
    )
