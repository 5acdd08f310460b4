"""Memory as a program names it: arrays, windows, views and parts.  A handle maps indices to a byte of a Memory; handles nest as partitions do."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fuzz.slow_values import Memory, Trap, Unsupported, scalar_of, size_of


class Handle:
    """memory, element, ndim; shape, where the handle knows what it shows."""

    memory: Memory
    element: object
    ndim: int

    def at(self, index: tuple) -> int:
        """The byte at which the element with this index begins."""
        raise NotImplementedError

    def origin(self, index: tuple) -> tuple:
        """The array beneath, and the index of this element in it, which may lie outside."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple:
        raise Unsupported("the extent of such a part")

    def load(self, index: tuple):
        return self.memory.load(self.at(index), self.element)

    def store(self, index: tuple, v) -> None:
        self.memory.store(self.at(index), self.element, v)

    def places(self, shape: tuple) -> np.ndarray:
        """For each index below shape, the place of its element among the memory's scalars: by steps where it is so, else one by one."""
        zero = (0,) * len(shape)
        first = self.at(zero)
        steps = [self.at(zero[:d] + (1,) + zero[d + 1:]) - first if extent > 1 else 0 for d, extent in enumerate(shape)]
        grids = np.meshgrid(*(np.arange(extent) for extent in shape), indexing="ij")
        places = first + sum(grid * step for grid, step in zip(grids, steps))
        corners = itertools.product(*({0, extent // 2, extent - 1} for extent in shape))
        if any(self.at(corner) != places[corner] for corner in corners):
            places = np.array([self.at(index) for index in np.ndindex(*shape)]).reshape(shape)
        return places // size_of(scalar_of(self.element))


@dataclass
class Array(Handle):
    """A whole object, row by row."""

    memory: Memory
    element: object
    extents: tuple

    def __post_init__(self):
        self.ndim = len(self.extents)
        self.size = size_of(self.element)

    @property
    def shape(self):
        return self.extents

    def flat(self, index: tuple) -> int:
        if len(index) != self.ndim:
            raise Trap(f"{len(index)} indices of {self.ndim}")
        place = 0
        for i, extent in zip(index, self.extents):
            if not 0 <= i < extent:
                raise Trap(f"out of bounds: {index} of {self.extents}")
            place = place * extent + i
        return place

    def at(self, index):
        return self.flat(index) * self.size

    def origin(self, index):
        return self, index


class Around(Handle):
    """A handle that changes indices on their way to another."""

    def __init__(self, parent: Handle, ndim: int, element=None):
        self.parent, self.ndim, self.memory = parent, ndim, parent.memory
        self.element = parent.element if element is None else element

    def moved(self, index: tuple) -> tuple:
        raise NotImplementedError

    def at(self, index):
        return self.parent.at(self.moved(index))

    def origin(self, index):
        return self.parent.origin(self.moved(index))


class Part(Around):
    """A partition's: its index function."""

    def __init__(self, parent: Handle, ndim: int, function):
        super().__init__(parent, ndim)
        self.moved = function

    @property
    def shape(self):
        """Each index runs along the one dimension that it moves in steps of one, from the dimension's beginning to its end."""
        zero = (0,) * self.ndim
        start, whole = self.moved(zero), self.parent.shape
        extents = []
        for d in range(self.ndim):
            one = self.moved(zero[:d] + (1,) + zero[d + 1:])
            steps = [b - a for a, b in zip(start, one)]
            if sorted(steps) != [0] * (len(steps) - 1) + [1] or start[steps.index(1)] != 0:
                raise Unsupported("the extent of a part that begins inside")
            extents.append(whole[steps.index(1)])
        return tuple(extents)


class Window(Around):
    def __init__(self, parent: Handle, corner: tuple, extents: tuple):
        super().__init__(parent, len(extents))
        self.corner, self.extents = corner, extents

    @property
    def shape(self):
        return self.extents

    def moved(self, index):
        if any(not 0 <= i < extent for i, extent in zip(index, self.extents)):
            raise Trap(f"out of bounds: {index} of a window of {self.extents}")
        return tuple(i + c for i, c in zip(index, self.corner))


class Rest(Around):
    """What is left where the first indices are given."""

    def __init__(self, parent: Handle, first: tuple):
        super().__init__(parent, parent.ndim - len(first))
        self.first = first

    @property
    def shape(self):
        return self.parent.shape[len(self.first):]

    def moved(self, index):
        return (*self.first, *index)


class Own(Around):
    """A block's part of memory across the blocks of a cluster."""

    def __init__(self, parent: Handle, rank: int):
        super().__init__(parent, parent.ndim - 1)
        self.rank = rank

    @property
    def shape(self):
        return self.parent.shape[1:]

    def moved(self, index):
        return (self.rank, *index)


class View(Around):
    """Other elements; the last index counts them."""

    def __init__(self, parent: Handle, element):
        super().__init__(parent, parent.ndim, element)
        self.size, self.old = size_of(element), size_of(parent.element)

    @property
    def shape(self):
        *rest, last = self.parent.shape
        return (*rest, last * self.old // self.size)

    def at(self, index):
        whole, rest = divmod(index[-1] * self.size, self.old)
        return self.parent.at((*index[:-1], whole)) + rest

    def origin(self, index):
        raise Unsupported("a box of a view")


class Reshaped(Around):
    """A row of elements as an array of several dimensions, or the other way round."""

    def __init__(self, parent: Handle, extents: tuple | None):
        super().__init__(parent, 1 if extents is None else len(extents))
        self.extents = (math.prod(parent.shape),) if extents is None else extents

    @property
    def shape(self):
        return self.extents

    def moved(self, index):
        place = 0
        for i, extent in zip(index, self.extents):
            place = place * extent + i
        if self.parent.ndim == 1:
            return (place,)
        out = []
        for extent in reversed(self.parent.shape):
            place, i = divmod(place, extent)
            out.append(i)
        return tuple(reversed(out))


class Pipeline:
    """n slots of one array, and how often a counted stage was entered."""

    def __init__(self, slots: list[Handle]):
        self.slots, self.entered = slots, 0

    def stage(self, k: int) -> Handle:
        return self.slots[k % len(self.slots)]
