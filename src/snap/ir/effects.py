"""What a statement does to memory: by which engine, and in which way."""

from __future__ import annotations

from enum import Enum


class Engine(Enum):
    """Who moves the elements.  What an engine other than the threads does goes on in the background until somebody
    waits for it.
    """

    THREADS = "threads"
    COPIES = "copies"  # of elements, cp.async
    BOXES = "boxes"  # TMA
    PRODUCTS = "products"  # wgmma

    # Of their own, by identity: these are parts of keys, and the hash of `Enum` is a call of Python's.
    __hash__ = object.__hash__


class Kind(Enum):
    """What an access does to its elements."""

    READ = "read"
    WRITE = "write"
    COMBINE = "combine"  # atomics and reductions: with what is there, in any order

    __hash__ = object.__hash__
