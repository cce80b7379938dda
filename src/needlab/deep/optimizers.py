"""The optimizers: torch's Adam, and RMSProp with TensorFlow's step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from needlab.deep.settings import DeepSettings


class CenteredRMSProp(torch.optim.Optimizer):
    """θ ← θ − lr · g / sqrt(v − ḡ² + eps), with ḡ and v the decaying means of g and g².

    As in TensorFlow, eps is inside the root and v starts at 1. torch's own RMSProp adds eps to
    the root and starts at 0, which makes steps at small gradients many times larger.
    """

    def __init__(
        self, params: Iterable[Any], lr: float, decay: float = 0.95, eps: float = 1e-5
    ) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step for every parameter that has a gradient."""
        assert closure is None, "this optimizer does not evaluate a closure"
        for group in self.param_groups:
            decay = group["decay"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(p), torch.ones_like(p)
                mean, square = state["mean"], state["square"]
                mean.lerp_(p.grad, 1.0 - decay)
                square.mul_(decay).addcmul_(p.grad, p.grad, value=1.0 - decay)
                root = square.addcmul(mean, mean, value=-1.0).add_(group["eps"]).sqrt_()
                p.addcdiv_(p.grad, root, value=-group["lr"])


def make_optimizer(settings: DeepSettings, q: Iterable[Tensor]) -> torch.optim.Optimizer:
    """The optimizer of the Q network, to which need may add its parameters.

    ``step_cut`` applies to the Q network alone.
    """
    lr, eps = settings.learning_rate, settings.optimizer_eps
    groups: list[dict[str, Any]] = [{"params": list(q), "lr": lr * settings.step_cut}]
    if settings.optimizer == "rmsprop":
        return CenteredRMSProp(groups, lr=lr, decay=settings.rms_decay, eps=eps)
    fused = groups[0]["params"][0].device.type in ("cpu", "cuda")
    return torch.optim.Adam(groups, lr=lr, eps=eps, fused=fused)
