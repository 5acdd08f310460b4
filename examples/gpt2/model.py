"""Define GPT-2 with every operation, forward and backward, as a Snap kernel.

Input:      a `Config`; tokens and targets, (batch, length)
Output:     the loss, and the gradients of all parameters in one flat buffer of f32
Invariant:  parameters, gradients and the moments of AdamW are flat buffers of one layout: matrices first, which decay.
            What is multiplied is bf16: `half`, which AdamW writes with the parameters; activations are bf16, sums f32
Non-goals:  dropout; a cache of keys and values for sampling

`Model.gradients(tokens, targets)` is the whole of it: nothing of torch runs, and a CUDA graph can hold it.  `Model` is a
module of torch as well, whose `forward` gives a loss with a gradient, for those who want torch's own engine around it,
as DistributedDataParallel does.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import kernels
import torch

from snap import lib


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 12
    heads: int = 12
    width: int = 768
    length: int = 1024  # of a sequence, at most
    vocabulary: int = 50304  # GPT-2's 50257, filled up to whole 64
    used: int = 256  # tokens that the data has: bytes

    @property
    def size(self) -> int:
        """Return the columns of a head."""
        return self.width // self.heads


TINY = Config(layers=1, heads=1, width=64, length=32, vocabulary=256)


def layout(config: Config) -> dict[str, tuple[int, ...]]:
    """List name and shape of every parameter, in their order in memory; those of a layer's vectors lie as
    `kernels.gather` writes them.
    """
    C, found = config.width, {"tokens": (config.vocabulary, config.width), "places": (config.length, config.width)}
    for k in range(config.layers):
        found |= {f"{k}.qkv": (3 * C, C), f"{k}.out": (C, C), f"{k}.up": (4 * C, C), f"{k}.down": (C, 4 * C)}
    for k in range(config.layers):
        found |= {f"{k}.ln1_w": (C,), f"{k}.ln1_b": (C,), f"{k}.qkv_b": (3 * C,), f"{k}.out_b": (C,)}
        found |= {f"{k}.ln2_w": (C,), f"{k}.ln2_b": (C,), f"{k}.up_b": (4 * C,), f"{k}.down_b": (C,)}
    return found | {"ln_w": (C,), "ln_b": (C,)}


def views(flat: torch.Tensor, config: Config) -> dict[str, torch.Tensor]:
    found, at = {}, 0
    for name, shape in layout(config).items():
        found[name] = flat[at : at + math.prod(shape)].view(shape)
        at += math.prod(shape)
    return found


def initial(config: Config, seed: int) -> torch.Tensor:
    """Return GPT-2's initial parameters, the same on every machine."""
    random = torch.Generator().manual_seed(seed)
    flat = torch.zeros(sum(map(math.prod, layout(config).values())))
    for name, view in views(flat, config).items():
        if view.dim() == 2:
            deep = (2 * config.layers) ** -0.5 if name.endswith((".out", ".down")) else 1.0
            view.normal_(0.0, 0.02 * deep, generator=random)
        elif name.endswith("_w"):
            view.fill_(1.0)
    return flat


@dataclasses.dataclass
class Layer:
    """Keep what the backward pass needs of one layer."""

    into: torch.Tensor  # the stream before it, normalized into n1
    mean1: torch.Tensor
    rstd1: torch.Tensor
    n1: torch.Tensor
    qkv: torch.Tensor
    seen: torch.Tensor  # by attention
    lse: torch.Tensor
    between: torch.Tensor  # the stream in its middle, normalized into n2
    mean2: torch.Tensor
    rstd2: torch.Tensor
    n2: torch.Tensor
    up: torch.Tensor
    active: torch.Tensor


class Model(torch.nn.Module):
    def __init__(self, config: Config, device: str, seed: int = 1):
        super().__init__()
        self.config = config
        self.flat = initial(config, seed).to(device)
        self.rounded = self.flat.bfloat16()
        self.grads = torch.zeros_like(self.flat)
        self.p, self.h, self.g = (views(x, config) for x in (self.flat, self.rounded, self.grads))
        self.decayed = sum(v.numel() for v in self.p.values() if v.dim() == 2)
        for name, view in self.p.items():
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(view))

    # ---- forward ----------------------------------------------------------------------------------------------------

    def logits(self, tokens: torch.Tensor, kept: list[Any] | None = None) -> torch.Tensor:
        """(batch * length, vocabulary).  kept: what `gradients` goes back through."""
        p, h, C = self.p, self.h, self.config.width
        batch, length = tokens.shape
        places = h["places"][:length]
        stream = lib.embedding(tokens, h["tokens"], positions=places).view(batch * length, C)
        added = None
        for k in range(self.config.layers):
            layer = self._layer(k, stream, added, batch, length)
            stream, added = layer.between, lib.gemm(layer.active, h[f"{k}.down"].t(), bias=p[f"{k}.down_b"])
            if kept is not None:
                kept.append(layer)
        found = lib.layer_norm(added, p["ln_w"], p["ln_b"], residual=stream, statistics=True)
        if kept is not None:
            kept.append(found)
        return lib.gemm(found[0], h["tokens"].t())

    def _layer(self, k: int, stream: Any, added: Any, batch: int, length: int) -> Layer:
        """added: what the layer before adds to the stream, where there is one."""
        p, h, C = self.p, self.h, self.config.width
        if added is None:
            n1, mean1, rstd1 = lib.layer_norm(stream, p[f"{k}.ln1_w"], p[f"{k}.ln1_b"], statistics=True)
        else:
            n1, stream, mean1, rstd1 = lib.layer_norm(
                added, p[f"{k}.ln1_w"], p[f"{k}.ln1_b"], residual=stream, statistics=True
            )
        qkv = lib.gemm(n1, h[f"{k}.qkv"].t(), bias=p[f"{k}.qkv_b"])
        seen, lse = lib.attention(*self._heads(qkv, batch, length), causal=True, lse=True)
        seen = seen.transpose(1, 2).reshape(batch * length, C)
        out = lib.gemm(seen, h[f"{k}.out"].t(), bias=p[f"{k}.out_b"])
        n2, between, mean2, rstd2 = lib.layer_norm(
            out, p[f"{k}.ln2_w"], p[f"{k}.ln2_b"], residual=stream, statistics=True
        )
        up = lib.gemm(n2, h[f"{k}.up"].t(), bias=p[f"{k}.up_b"])
        active = lib.gelu(up, approximate="tanh")
        return Layer(stream, mean1, rstd1, n1, qkv, seen, lse, between, mean2, rstd2, n2, up, active)

    def _heads(self, qkv: torch.Tensor, batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, each (batch, heads, length, size), where they lie."""
        split = qkv.view(batch, length, 3, self.config.heads, self.config.size)
        q, k, v = (split[:, :, i].transpose(1, 2) for i in range(3))
        return q, k, v

    # ---- backward ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def gradients(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss, and leave the gradients in `grads`."""
        h, g = self.h, self.g
        kept: list[Any] = []
        logits = self.logits(tokens, kept)
        loss, d_logits = lib.cross_entropy(logits, targets.reshape(-1), gradient=True, in_place=True)
        normal, stream, mean, rstd = kept.pop()
        d_normal = lib.gemm(d_logits, h["tokens"])
        lib.gemm(d_logits.t(), normal, out=g["tokens"])
        d_stream, d_weight, d_bias, d_down = lib.layer_norm_gradient(
            d_normal, stream, self.p["ln_w"], mean, rstd, sums=True
        )
        self._put(d_weight, g["ln_w"])
        self._put(d_bias, g["ln_b"])
        del logits, d_logits, d_normal, normal, stream
        for k in reversed(range(self.config.layers)):
            d_stream, d_down = self._back(k, kept.pop(), d_stream, d_down, *tokens.shape)
        self._back_to_tokens(tokens, d_stream)
        return loss

    def _back(self, k: int, kept: Layer, d_stream: Any, down_b: Any, batch: int, length: int) -> tuple[Any, Any]:
        """Return the gradient of the stream before layer k, and the sum of its rows: that of the bias before it."""
        p, h, g, C = self.p, self.h, self.g, self.config.width
        d_active = lib.gemm(d_stream, h[f"{k}.down"])
        lib.gemm(d_stream.t(), kept.active, out=g[f"{k}.down"])
        d_up, up_b = lib.gelu_gradient(d_active, kept.up, approximate="tanh", sums=True)
        d_n2 = lib.gemm(d_up, h[f"{k}.up"])
        lib.gemm(d_up.t(), kept.n2, out=g[f"{k}.up"])
        d_between, ln2_w, ln2_b, out_b = lib.layer_norm_gradient(
            d_n2, kept.between, p[f"{k}.ln2_w"], kept.mean2, kept.rstd2, grad_residual=d_stream, sums=True
        )
        d_seen = lib.gemm(d_between, h[f"{k}.out"])
        lib.gemm(d_between.t(), kept.seen, out=g[f"{k}.out"])
        d_qkv = torch.empty_like(kept.qkv)
        shape = (batch, length, self.config.heads, self.config.size)
        back, seen = (x.view(shape).transpose(1, 2) for x in (d_seen, kept.seen))
        lib.attention_gradient(
            back,
            *self._heads(kept.qkv, batch, length),
            seen,
            kept.lse,
            causal=True,
            into=self._heads(d_qkv, batch, length),
        )
        d_n1 = lib.gemm(d_qkv, h[f"{k}.qkv"])
        lib.gemm(d_qkv.t(), kept.n1, out=g[f"{k}.qkv"])
        d_into, ln1_w, ln1_b, before = lib.layer_norm_gradient(
            d_n1, kept.into, p[f"{k}.ln1_w"], kept.mean1, kept.rstd1, grad_residual=d_between, sums=True
        )
        qkv_b = lib.column_sums(d_qkv, dtype="f32")
        start = g[f"{k}.ln1_w"].storage_offset()
        to = self.grads[start : start + 13 * C]
        kernels.gather(ln1_w, ln1_b, qkv_b, out_b, ln2_w, ln2_b, up_b, down_b, to, C)
        return d_into, before

    def _back_to_tokens(self, tokens: torch.Tensor, d_stream: torch.Tensor) -> None:
        """The table of tokens has the gradient of the logits already.  Where there are few tokens, so that each of them
        stands in many places, their sums are a product on the tensor cores.
        """
        C, length, used = self.config.width, tokens.shape[1], self.config.used
        if used <= 1024:
            ones = d_stream.new_empty((tokens.numel(), used))
            kernels.one_hot(tokens.reshape(-1), ones, tokens.numel(), used)
            of_tokens = lib.gemm(ones.t(), d_stream, out=torch.empty((used, C), device=tokens.device))
            of_places = lib.column_sums(d_stream.view(tokens.shape[0], length * C), dtype="f32")
        else:
            of_tokens, of_places = lib.embedding_gradient(
                d_stream.view(*tokens.shape, C), tokens, used, positions=length, dtype="f32"
            )
        self._put(of_places, self.g["places"][:length])
        kernels.add(of_tokens.view(-1), self.g["tokens"].view(-1)[: used * C], used * C)

    def _put(self, x: torch.Tensor, to: torch.Tensor) -> None:
        kernels.put(x.reshape(-1), to.view(-1), to.numel())

    # ---- for torch's engine -----------------------------------------------------------------------------------------

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss, with a gradient for each parameter: torch's engine sees one operation."""
        loss: Any = Whole.apply(self, tokens, targets, *self.parameters())
        return loss


class Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, model, tokens, targets, *parameters):
        loss = model.gradients(tokens, targets)
        ctx.model = model
        return loss

    @staticmethod
    def backward(ctx, *grads):
        return None, None, None, *(view * grads[0] for view in ctx.model.g.values())


class AdamW:
    """One launch over all parameters.  lr and the number of the step are in memory, where a graph reads them."""

    def __init__(self, model: Model, weight_decay: float = 0.1):
        self.model, self.weight_decay = model, weight_decay
        self.first, self.second = torch.zeros_like(model.flat), torch.zeros_like(model.flat)
        self.steps = torch.zeros(1, dtype=torch.int64, device=model.flat.device)
        self.lr = torch.zeros(1, device=model.flat.device)

    def begin(self, lr: float) -> None:
        """Begin the next step, at this rate."""
        kernels.advance[1](self.steps, self.lr, lr)

    def step(self) -> None:
        model = self.model
        lib.adamw(
            model.flat, model.grads, self.first, self.second, self.steps, lr=self.lr, betas=(0.9, 0.95),
            weight_decay=self.weight_decay, decayed=model.decayed, copy=model.rounded,
        )  # fmt: skip

    def state(self) -> dict[str, torch.Tensor]:
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        for name, value in self.state().items():
            value.copy_(state[name])
