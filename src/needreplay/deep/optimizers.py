"""Optimisers: Adam without what torch's does around it, and RMSProp with TensorFlow's step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from needreplay.deep.settings import DeepSettings


class LeanAdam(torch.optim.Adam):
    """torch's own fused Adam, number for number.

    Torch looks at every parameter's device, dtype and options anew at each step, which takes
    longer than the arithmetic of a small network does. Here all of them are alike.
    """

    def __init__(self, params: Iterable[Any], lr: float, eps: float) -> None:
        super().__init__(params, lr=lr, eps=eps, fused=True)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step for every parameter that has a gradient."""
        assert closure is None, "this optimiser evaluates nothing"
        for group, moved, grads in _moved(self):
            kept = [self._kept(p) for p in moved]
            counts = [one["step"] for one in kept]
            torch._foreach_add_(counts, 1)
            torch._fused_adam_(
                moved,
                grads,
                [one["exp_avg"] for one in kept],
                [one["exp_avg_sq"] for one in kept],
                [],
                counts,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _kept(self, p: Tensor) -> dict[str, Tensor]:
        """The parameter's count of steps and averages, under torch's own names."""
        kept: dict[str, Tensor] = self.state[p]
        if not kept:
            kept["step"] = torch.zeros((), dtype=torch.float32, device=p.device)
            kept["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
            kept["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return kept


class CenteredRMSProp(torch.optim.Optimizer):
    """θ ← θ − lr · g / sqrt(v − ḡ² + eps), with ḡ and v the decaying means of g and g².

    As TensorFlow has it, eps is inside the root and v begins at 1; torch's own RMSProp adds eps
    to the root and begins at 0, which at small gradients is a step many times larger.
    """

    def __init__(
        self, params: Iterable[Any], lr: float, decay: float = 0.95, eps: float = 1e-5
    ) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step for every parameter that has a gradient."""
        assert closure is None, "this optimiser evaluates nothing"
        for group, moved, grads in _moved(self):
            means = [self._average(p, "mean", 0.0) for p in moved]
            squares = [self._average(p, "square", 1.0) for p in moved]
            rest = 1.0 - group["decay"]
            torch._foreach_lerp_(means, grads, rest)
            torch._foreach_mul_(squares, group["decay"])
            torch._foreach_addcmul_(squares, grads, grads, value=rest)
            roots = torch._foreach_addcmul(squares, means, means, value=-1.0)
            torch._foreach_add_(roots, group["eps"])
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(moved, grads, roots, value=-group["lr"])

    def _average(self, p: Tensor, name: str, start: float) -> Tensor:
        state = self.state[p]
        if name not in state:
            state[name] = torch.full_like(p, start)
        average: Tensor = state[name]
        return average


Moved = tuple[dict[str, Any], list[Tensor], list[Tensor]]


def _moved(optimizer: torch.optim.Optimizer) -> Iterator[Moved]:
    """Every group that has parameters with a gradient: these, and their gradients."""
    for group in optimizer.param_groups:
        pairs = [(p, p.grad) for p in group["params"] if p.grad is not None]
        if pairs:
            yield group, [p for p, _ in pairs], [grad for _, grad in pairs]


def make_optimizer(
    settings: DeepSettings, q: Iterable[Tensor], successor: Iterable[Tensor]
) -> torch.optim.Optimizer:
    """One optimiser for both networks; the step cut concerns the Q network alone."""
    groups: list[dict[str, Any]] = [
        {"params": list(q), "lr": settings.learning_rate * settings.step_cut},
        {"params": list(successor), "lr": settings.learning_rate},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimizer == "adam":
        make = LeanAdam if _fusable(groups) else torch.optim.Adam
        return make(groups, lr=settings.learning_rate, eps=settings.optimizer_eps)
    return CenteredRMSProp(
        groups, lr=settings.learning_rate, decay=settings.rms_decay, eps=settings.optimizer_eps
    )


def _fusable(groups: Iterable[dict[str, Any]]) -> bool:
    """Whether torch has a fused Adam where the parameters are."""
    return all(p.device.type in ("cpu", "cuda") for group in groups for p in group["params"])


def clear_gradients(optimizer: torch.optim.Optimizer) -> None:
    """No parameter has a gradient from now on; torch's own way takes ten times as long."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = None
