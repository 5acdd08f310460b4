"""A generated program: the text of a file that defines a kernel `k`, and what it is launched with."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from fuzz.declared import declared

FAMILIES = ("memory", "loops", "calls", "pipelines", "boxes", "products", "roles", "clusters", "grid", "scalars", "forms", "parts", "flights", "relays", "handover", "records", "sizes", "strides")
HEADER = "from __future__ import annotations\nfrom snap import *\n"
_numbers = itertools.count()


@dataclass(frozen=True)
class Case:
    """`arguments` are Python expressions over `np`, one for each parameter of `k`; bf16 is uint16's bits, as the CPU machine takes them."""

    seed: int
    family: str
    source: str
    arguments: tuple[str, ...]
    blocks: int
    tags: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.family}:{self.seed}"


# Names that mean something in C++, in CUDA, in its headers, or in the code that is generated.
NAMES = ("asm", "register", "template", "typename", "NULL", "INT_MAX", "threadIdx", "blockDim", "warpSize", "nv_half", "nv_half2", "nv_bfloat162", "half_t", "snap_barrier_wait",
         "thread_index", "block_index", "uint", "size_t", "main", "__syncwarp", "float_", "s_fill", "s_slot", "k_", "restrict", "assert_", "erff", "__half2", "cooperative_groups")


def generate(family: str, seed: int) -> Case:
    """The program of this family and number, always the same."""
    make: Callable[[random.Random], tuple[str, tuple[str, ...], int, set[str]]] = import_module(f"fuzz.{family}").make
    rng = random.Random(f"{family}:{seed}")
    source, arguments, blocks, tags = make(rng)
    if rng.random() < 0.6:
        source, forms = declared(source, rng)
        tags = {*tags, *forms}
    if rng.random() < 0.05:
        tags = {*tags, "hostile names"}
        for name, new in zip(("v", "t", "mine", "s1", "b"), rng.sample(NAMES, 5)):
            source = re.sub(rf"\b{name}\b", new, source)
    return Case(seed, family, source, arguments, blocks, frozenset(tags))


def load(case: Case, name: str = "k"):
    """The kernel.  SnapError where the program is refused."""
    from snap import register_source

    filename = f"<fuzz {case.name} {next(_numbers)}>"
    register_source(filename, case.source)
    namespace: dict = {"__name__": "fuzzed"}
    exec(compile(case.source, filename, "exec", dont_inherit=True), namespace)
    return namespace[name]


def made(case: Case) -> list:
    """Fresh arguments."""
    return [eval(text, {"np": np}) for text in case.arguments]


def bf16_bits(low: int, high: int, *shape: int, seed: int = 0) -> str:
    """An expression for small whole numbers in bf16."""
    return f"(np.random.default_rng({seed}).integers({low}, {high + 1}, {shape}).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)"
