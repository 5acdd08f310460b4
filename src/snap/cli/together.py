"""Put several kernels into one CUDA text.

Input:      generated modules, whose kernels have different names
Output:     a text that compiles
Invariant:  what reads alike in all modules that have it is written once; a name that means different things in two of
            them lies in a namespace of each kernel, with everything that uses it
Non-goals:  one kernel's own text, which is left as it is
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snap._compiler.codegen import CudaModule

_WORD = re.compile(r"\w+")
_COMMENT = re.compile(r"//[^\n]*")
_SKIPPED = re.compile(r"(?m)^\s*(#.*|template\s*<[^>]*>)$")
_DECLARED = re.compile(r"(operator\W+[^{]*|\w+)\s*[({\[;=]")


def together(modules: list[CudaModule]) -> str:
    """Write the text of all kernels."""
    if len(modules) == 1:
        return modules[0].text
    parts = [_parts(module) for module in modules]
    texts: dict[str, set[str]] = {}
    for name, text in (one for part in parts for one in part):
        texts.setdefault(name, set()).add(text)
    own = {name for name, found in texts.items() if len(found) > 1}
    while more := {name for name in texts.keys() - own for text in texts[name] if not own.isdisjoint(_words(text))}:
        own |= more
    files = [module.file for module in modules if module.file is not None]
    includes = sorted({include for file in files for include in file.includes})
    shared = dict.fromkeys(text for part in parts for name, text in part if name not in own)
    blocks = ["\n".join(f"#include <{name}>" for name in includes)] if includes else []
    blocks += shared
    for module, part in zip(modules, parts):
        blocks += _kernel(module, [text for name, text in part if name in own], own)
    return "\n\n".join(blocks) + "\n"


def _kernel(module: CudaModule, own: list[str], private: set[str]) -> list[str]:
    """Write the kernel below its heading, in a namespace with what is its own."""
    from snap._compiler.codegen.core import printer

    assert module.file is not None
    heading = "\n".join(f"// {printer.comment_text(line)}" for line in module.file.header)
    kernel = printer.function(module.file.functions[-1])
    if not own and private.isdisjoint(_words(kernel)):
        return [f"{heading}\n{kernel}"]
    return [heading, f"namespace of_{module.kernel} {{", *own, kernel, f"}}  // of_{module.kernel}"]


def _parts(module: CudaModule) -> list[tuple[str, str]]:
    """List everything above the kernel, in order: the name that it declares, and its text."""
    from snap._compiler.codegen.core import printer

    assert module.file is not None
    structs = [(one.name, printer.struct(one)) for one in module.file.structs]
    helpers = [(_declared(text), text) for text in module.file.helpers]
    return [*structs, *helpers, *((one.name, printer.function(one)) for one in module.file.functions[:-1])]


def _declared(text: str) -> str:
    """Find the name that a helper declares first; an operator comes with its operands: operators share few names."""
    code = _SKIPPED.sub("", _COMMENT.sub("", text))
    found = _DECLARED.search(code)
    return found[1].strip() if found else code


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
