"""Define what launches raise.  Each message says what was expected, what came, and what to do."""

from __future__ import annotations

INSTALL = "pip install snap-gpu[gpu]"


class LaunchError(TypeError, ValueError):
    """A launch that was refused before anything happened: no kernel ran, nothing was overwritten.

    It is both a TypeError and a ValueError, so that callers may catch whichever they think of.
    """

    def __init__(self, kernel: str, problem: str, parameter: str | None = None):
        where = f"parameter `{parameter}` of `{kernel}`" if parameter else f"`{kernel}`"
        super().__init__(f"{where}: {problem}")
        self.kernel = kernel
        self.parameter = parameter
        self.problem = problem

    def __reduce__(self):
        """Errors of data loaders and of other processes come back pickled."""
        return type(self), (self.kernel, self.problem, self.parameter)


class DerivativeError(LaunchError, NotImplementedError):
    """A call whose derivative would be lost or wrong.  It is a NotImplementedError, too, and so a RuntimeError, as what
    torch raises where it has no derivative.
    """


class GpuError(RuntimeError):
    """The driver reported an error, possibly one of an earlier kernel."""


class LostGpuError(GpuError):
    """A kernel that ran earlier failed, and with it the process's hold on the GPU: every later call reports it again,
    as `result`.
    """

    def __init__(self, message: str, result: int):
        super().__init__(message)
        self.result = result


class ToolchainError(RuntimeError):
    """NVRTC or the driver is missing, too old, or does not know the architecture."""


class InternalError(RuntimeError):
    """Generated code was refused by NVRTC: a bug in Snap, not in the user's program."""


class UnsafeTextError(RuntimeError):
    """NVRTC refused a kernel that holds CUDA text of the user's own."""
