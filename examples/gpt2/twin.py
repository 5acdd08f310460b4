"""Define the same model in plain torch: bf16 autocast, torch's attention, fused AdamW.

Input:      the parameters of a `Model`, copied
Output:     losses to compare with it
Invariant:  the same shapes, initial values, learning rates and decay
Non-goals:  speed beyond what torch, eager or compiled, gives
"""

from __future__ import annotations

import torch
from model import Config, views
from torch.nn import functional as F


class Twin(torch.nn.Module):
    def __init__(self, config: Config, flat: torch.Tensor, stream: torch.dtype = torch.float32):
        """stream: in what the sums of all layers are kept; autocast leaves them f32, and Snap's are bf16."""
        super().__init__()
        self.config, self.stream = config, stream
        for name, view in views(flat.detach().clone(), config).items():
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(view.clone()))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        p, C = dict(self.named_parameters()), self.config.width
        batch, length = tokens.shape
        x = (F.embedding(tokens, p["tokens"]) + p["places"][:length]).to(self.stream)
        for k in range(self.config.layers):
            n = F.layer_norm(x, (C,), p[f"{k}_ln1_w"], p[f"{k}_ln1_b"])
            qkv = F.linear(n, p[f"{k}_qkv"], p[f"{k}_qkv_b"]).view(
                batch, length, 3, self.config.heads, self.config.size
            )
            q, k_, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
            seen = F.scaled_dot_product_attention(q, k_, v, is_causal=True).transpose(1, 2).reshape(batch, length, C)
            x = (x + F.linear(seen, p[f"{k}_out"], p[f"{k}_out_b"])).to(self.stream)
            n = F.layer_norm(x, (C,), p[f"{k}_ln2_w"], p[f"{k}_ln2_b"])
            up = F.gelu(F.linear(n, p[f"{k}_up"], p[f"{k}_up_b"]), approximate="tanh")
            x = (x + F.linear(up, p[f"{k}_down"], p[f"{k}_down_b"])).to(self.stream)
        logits = F.linear(F.layer_norm(x, (C,), p["ln_w"], p["ln_b"]), p["tokens"])
        if targets is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class TwinTraining:
    """`step(tokens, targets, lr)` gives the loss."""

    def __init__(
        self,
        config: Config,
        flat: torch.Tensor,
        how: str,
        weight_decay: float = 0.1,
        stream: torch.dtype = torch.float32,
    ):
        self.model = Twin(config, flat, stream)
        matrices = [p for p in self.model.parameters() if p.dim() == 2]
        vectors = [p for p in self.model.parameters() if p.dim() != 2]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        self.cuda = flat.is_cuda
        self.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=self.cuda)
        self.run = torch.compile(self.model) if how == "compile" else self.model

    def step(self, tokens: torch.Tensor, targets: torch.Tensor, lr: float) -> torch.Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        with torch.autocast(tokens.device.type, dtype=torch.bfloat16):
            loss = self.run(tokens, targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()
