"""Name the types in the signatures of `snap.lib`'s functions, for editors and type checkers.

Input:      nothing
Output:     `AnyArray`, `ArrayT`, `DType`, `Operation`, `Activation` and the words that a parameter takes
Invariant:  no package of arrays is imported: classes of NumPy, CuPy and torch fit by their attributes
Non-goals:  checks of values, which `arrays.py` and `operators.py` make
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from snap._compiler.ir.types import Scalar
from snap.api import SnapFunction
from snap.surface import TypeName


class AnyArray(Protocol):
    """An array of NumPy, CuPy or torch."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def ndim(self) -> int: ...

    @property
    def T(self) -> Any: ...


class ElementType(Protocol):
    """An element type as NumPy (`array.dtype`) and torch (`torch.bfloat16`) represent it."""

    @property
    def itemsize(self) -> int: ...


# A function that takes and returns `ArrayT` returns an array of the same library, on the same device.
ArrayT = TypeVar("ArrayT", bound=AnyArray)

DType: TypeAlias = str | type[Any] | TypeName | Scalar | ElementType
FloatWord: TypeAlias = Literal["f32", "f16", "bf16", "float32", "float16", "bfloat16"]
FloatType: TypeAlias = FloatWord | type[Any] | TypeName | Scalar | ElementType
EightBitType: TypeAlias = Literal["e4m3", "e5m2"] | type[Any] | ElementType

Operation: TypeAlias = Literal["add", "mul", "min", "max", "and", "or", "xor"] | SnapFunction
Activation: TypeAlias = Literal["relu", "gelu", "silu"]
Reduction: TypeAlias = Literal["mean", "sum", "none"]
Approximation: TypeAlias = Literal["none", "tanh"]
Movement: TypeAlias = Literal["direct", "striped", "vectorized", "transposed"]
Exchange: TypeAlias = Literal["striped to blocked", "blocked to striped"]
