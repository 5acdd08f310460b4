"""The rest of a transformer, forward and backward: against torch eager, torch.compile, and a copy of as many bytes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from harness import Benchmark, Prepared

import snap

BF16 = torch.bfloat16
ROWS, COLUMNS = 32768, 8192
aten = torch.ops.aten


def compiled(function):
    """torch.compile's version, made when it is first needed."""
    return Prepared(lambda size: torch.compile(function, dynamic=False))


def randoms(*shapes, dtype=BF16):
    return lambda size, random: tuple(torch.randn(shape(size), device="cuda", generator=random).to(dtype) for shape in shapes)


def whole(size):
    return size


def row(size):
    return size[-1:]


def against(name, eager, ours, inputs, reference, bytes, sizes, tolerance=2.0**-6, compiles=None, **more):
    """compiles: by torch.compile, where that is not of what runs eagerly."""
    return Benchmark(
        name=name, sizes=sizes, inputs=inputs, ours={"snap": ours}, baselines={"torch": eager, "torch.compile": compiles or compiled(eager)},
        reference=reference, tolerance=tolerance, bytes=bytes, label=lambda size: " x ".join(map(str, size)), **more,
    )


def count(size):
    total = 1
    for extent in size:
        total *= extent
    return total


# ---- norms: their statistics are inputs of the gradients, as in a training step -----------------------------------------------------------

NORMS = [(ROWS, COLUMNS), (ROWS, 768), (8192, 1024)]


def with_statistics(size, random):
    g, x, w, b = randoms(whole, whole, row, row)(size, random)
    mean = x.float().mean(-1)
    return g, x, w, b, mean, (x.float().var(-1, unbiased=False) + 1e-5).rsqrt()


# All of the results are taken of everybody: what is not returned, torch.compile does not compute.


def norm_backward(g, x, w, b, mean, rstd):
    return aten.native_layer_norm_backward(g, x, [x.shape[-1]], mean[:, None], rstd[:, None], w, b, [True, True, True])


def rms_backward(g, x, w, b, mean, rstd):
    return aten._fused_rms_norm_backward(g, x, [x.shape[-1]], rstd[:, None], w, [True, True])


def rms_formula(g, x, w, b, mean, rstd):
    y = x.float() * rstd[:, None]
    by = g.float() * w.float()
    dx = (by - y * (by * y).mean(-1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (g.float() * y).sum(0).to(w.dtype)


def exact_norm_backward(g, x, w, b, mean, rstd):
    y, by = (x.double() - mean[:, None]) * rstd[:, None], g.double() * w.double()
    dx = rstd[:, None] * (by - by.mean(-1, keepdim=True) - y * (by * y).mean(-1, keepdim=True))
    return dx, (g.double() * y).sum(0), g.double().sum(0)


def exact_rms_backward(g, x, w, b, mean, rstd):
    y, by = x.double() * rstd[:, None], g.double() * w.double()
    return rstd[:, None] * (by - y * (by * y).mean(-1, keepdim=True)), (g.double() * y).sum(0)


def exact_rms_norm(x, w):
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w.double()


def with_residual(x, r, w, b):
    s = x + r
    return F.layer_norm(s, x.shape[-1:], w, b), s


OF_NORMS = [
    against("layer_norm", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), lambda x, w, b: snap.lib.layer_norm(x, w, b),
            randoms(whole, row, row), lambda x, w, b: F.layer_norm(x.double(), x.shape[-1:], w.double(), b.double()),
            lambda size: 4 * count(size), NORMS),
    against("layer_norm_residual", with_residual, lambda x, r, w, b: snap.lib.layer_norm(x, w, b, residual=r), randoms(whole, whole, row, row),
            lambda x, r, w, b: (F.layer_norm((x + r).double(), x.shape[-1:], w.double(), b.double()), (x + r).double()),
            lambda size: 8 * count(size), NORMS),
    against("layer_norm_gradient", norm_backward, lambda g, x, w, b, mean, rstd: snap.lib.layer_norm_gradient(g, x, w, mean, rstd),
            with_statistics, exact_norm_backward, lambda size: 6 * count(size), NORMS),
    against("rms_norm", lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), lambda x, w: snap.lib.rms_norm(x, w), randoms(whole, row),
            exact_rms_norm, lambda size: 4 * count(size), NORMS),
    against("rms_norm_gradient", rms_backward, lambda g, x, w, b, mean, rstd: snap.lib.rms_norm_gradient(g, x, w, rstd), with_statistics,
            exact_rms_backward, lambda size: 6 * count(size), NORMS, compiles=compiled(rms_formula)),
]

# ---- elements ---------------------------------------------------------------------------------------------------------------------------

WIDE = [(ROWS, 3072)]


def exact_gelu_gradient(g, x):
    return aten.gelu_backward(g.double(), x.double(), approximate="tanh")


def gelu_and_sums(g, x):
    dx = aten.gelu_backward(g, x, approximate="tanh")
    return dx, dx.float().sum(0)


def swiglu_backward(g, gate, up):
    return aten.silu_backward(g * up, gate), g * F.silu(gate)


OF_ELEMENTS = [
    against("gelu", lambda x: F.gelu(x, approximate="tanh"), lambda x: snap.lib.gelu(x, approximate="tanh"), randoms(whole),
            lambda x: F.gelu(x.double(), approximate="tanh"), lambda size: 4 * count(size), WIDE),
    against("gelu_gradient", lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
            lambda g, x: snap.lib.gelu_gradient(g, x, approximate="tanh"), randoms(whole, whole), exact_gelu_gradient,
            lambda size: 6 * count(size), WIDE),
    against("swiglu", lambda gate, up: F.silu(gate) * up, lambda gate, up: snap.lib.swiglu(gate, up), randoms(whole, whole),
            lambda gate, up: F.silu(gate.double()) * up.double(), lambda size: 6 * count(size), WIDE),
    against("swiglu_gradient", swiglu_backward, snap.lib.swiglu_gradient, randoms(whole, whole, whole),
            lambda g, gate, up: swiglu_backward(g.double(), gate.double(), up.double()), lambda size: 10 * count(size), WIDE),
    against("gelu_gradient_sums", gelu_and_sums, lambda g, x: snap.lib.gelu_gradient(g, x, approximate="tanh", sums=True), randoms(whole, whole),
            lambda g, x: (exact_gelu_gradient(g, x), exact_gelu_gradient(g, x).sum(0)), lambda size: 6 * count(size), WIDE),
    against("column_sums", lambda x: x.sum(0), lambda x: snap.lib.column_sums(x), randoms(whole), lambda x: x.double().sum(0),
            lambda size: 2 * count(size), WIDE),
    Benchmark(  # not the same elements, so nothing is compared but the share that is left
        name="dropout", sizes=WIDE, inputs=randoms(whole),
        ours={"snap": lambda x: (snap.lib.dropout(torch.ones_like(x), 0.5, 1) != 0).double().mean(),
              "snap alone": lambda x: (snap.lib.dropout(x, 0.5, 1), x.new_full((), 0.5))[1],
              "snap gradient": lambda x: (snap.lib.dropout_gradient(x, 0.5, 1), x.new_full((), 0.5))[1]},
        baselines={"torch": lambda x: F.dropout(x, 0.5)}, unlike=["torch"], reference=lambda x: torch.tensor(0.5, dtype=torch.float64, device=x.device),
        tolerance=1e-3, bytes=lambda size: 4 * count(size), label=lambda size: " x ".join(map(str, size)),
    ),
]

# ---- heads and tokens -------------------------------------------------------------------------------------------------------------------


def heads(size, random):
    batch, many, length, columns = size
    x = torch.randn(batch, length, many, columns, device="cuda", generator=random).to(BF16).transpose(1, 2)
    angles = torch.randn(length, columns // 2, device="cuda", generator=random)
    return x, angles.cos(), angles.sin()


def turned(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)


def tokens(size, random):
    rows, columns, batch, length = size
    table = torch.randn(rows, columns, device="cuda", generator=random).to(BF16)
    named = (rows ** torch.rand(batch, length, device="cuda", generator=random)).long().clamp(0, rows - 1)  # some often, as words are
    return named, table, torch.randn(batch, length, columns, device="cuda", generator=random).to(BF16)


def exact_table(named, table, g):
    zero = torch.zeros(table.shape, device="cuda", dtype=torch.float64)
    return zero.index_add_(0, named.reshape(-1), g.double().reshape(-1, g.shape[-1]))


TABLES = [(50304, 768, 32, 1024)]
OF_TOKENS = [
    against("rotary", turned, lambda x, c, s: snap.lib.rotary(x, c, s), heads, lambda x, c, s: turned(x.double(), c.double(), s.double()),
            lambda size: 4 * count(size), [(8, 16, 2048, 128)]),
    against("rotary_gradient", lambda x, c, s: turned(x, c, -s), lambda x, c, s: snap.lib.rotary_gradient(x, c, s), heads,
            lambda x, c, s: turned(x.double(), c.double(), -s.double()), lambda size: 4 * count(size), [(8, 16, 2048, 128)]),
    against("embedding", lambda named, table, g: F.embedding(named, table), lambda named, table, g: snap.lib.embedding(named, table), tokens,
            lambda named, table, g: table[named].double(), lambda size: 4 * count(size[1:]), TABLES, tolerance=0),
    against("embedding_gradient", lambda named, table, g: aten.embedding_dense_backward(g, named, table.shape[0], -1, False),
            lambda named, table, g: snap.lib.embedding_gradient(g, named, table.shape[0]), tokens, exact_table,
            lambda size: 2 * count(size[1:]) + 2 * count(size[:2]), TABLES),
]

# ---- loss and optimizer -----------------------------------------------------------------------------------------------------------------


def logits(size, random):
    return torch.randn(size, device="cuda", generator=random).to(BF16), torch.randint(0, size[1], size[:1], device="cuda", generator=random)


def loss_backward(x, targets):
    wants = x.detach().requires_grad_()
    loss = F.cross_entropy(wants, targets)
    return loss.detach(), torch.autograd.grad(loss, wants)[0]


def loss_compiled(size):
    forward = torch.compile(lambda x, targets: F.cross_entropy(x, targets), dynamic=False)

    def both(x, targets):
        wants = x.detach().requires_grad_()
        loss = forward(wants, targets)
        return loss.detach(), torch.autograd.grad(loss, wants)[0]

    return both


def exact_gradient(x, targets):
    found = x.float().softmax(-1)  # float64 of all logits would be 6.6 GB
    loss = -found[torch.arange(len(x), device="cuda"), targets].double().log().mean()
    found[torch.arange(len(x), device="cuda"), targets] -= 1
    return loss, found / len(x)


def buffers(size, random):
    return tuple(torch.randn(size, device="cuda", generator=random).abs() for _ in range(4))


def adamw_by_torch(size):
    """torch's fused step over the same buffers; lists of one tensor, as its optimizer calls it."""

    def step(p, g, m, v):
        at = torch.full((), 3.0, device="cuda")
        torch._fused_adamw_([p], [g], [m], [v], [], [at], lr=0.0, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
        return p

    return step


def adamw_by_snap(p, g, m, v):
    snap.lib.adamw(p, g, m, v, 3, lr=0.0, weight_decay=0.0)  # the parameters stay: the reference is what they were
    return p


OF_TRAINING = [
    against("cross_entropy", loss_backward, lambda x, targets: snap.lib.cross_entropy(x, targets, gradient=True), logits, exact_gradient,
            lambda size: 4 * count(size), [(16384, 50304), (4096, 50257)], compiles=Prepared(loss_compiled)),
    Benchmark(
        name="adamw", sizes=[(124_439_808,)], inputs=buffers, ours={"snap": adamw_by_snap}, baselines={"torch fused": Prepared(adamw_by_torch)},
        reference=lambda p, g, m, v: p.double(), tolerance=0, bytes=lambda size: 28 * size[0], label=lambda size: str(size[0]),
    ),
    against("global_norm", lambda g: torch.linalg.vector_norm(g), lambda g: snap.lib.global_norm(g), randoms(whole, dtype=torch.float32),
            lambda g: torch.linalg.vector_norm(g.double()), lambda size: 4 * size[0], [(124_439_808,)], tolerance=1e-5),
]

BENCHMARKS = [*OF_NORMS, *OF_ELEMENTS, *OF_TOKENS, *OF_TRAINING]
