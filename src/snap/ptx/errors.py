"""What is wrong with a PTX text, and where."""

from __future__ import annotations

from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span


class PtxError(SnapError):
    """A PTX text that cannot be read, or that asks for something that does not exist.

    code: 'PTX001' no such token, 'PTX002' not the grammar of PTX, 'PTX003' a name that is unknown or declared twice.
    """

    __module__ = "snap.ptx"

    def __init__(self, code: str, message: str, span: Span, label: str = "", help: str = ""):
        super().__init__(Diagnostic(code, message, span, label, help=help))

    def __reduce__(self):
        d = self.diagnostic
        return type(self), (d.code, d.message, d.span, d.label, d.help)
