"""List what of Python is not Snap (SNAP017), why, and what to write instead.

The table is keyed by the name of the `ast` class, so that node types of newer Pythons can stand in it. Input: the name
of an `ast` class, or of a builtin. Output: a `Refusal`.  Invariant: each says what to write instead. Non-goals: where
it stands in the text.
"""

from __future__ import annotations

from snap.diag.error import Diagnostic
from snap.diag.span import Span
from snap.record import record

CODE = "SNAP017"


@record
class Refusal:
    """what: the construct; why: the label under the caret; instead: the help line."""

    what: str
    why: str
    instead: str

    def at(self, span: Span) -> Diagnostic:
        verb = "are" if self.what.endswith("s") and not self.what.startswith(("`", "a ", "an ")) else "is"
        return Diagnostic(CODE, f"{self.what} {verb} not part of Snap", span, label=self.why, help=self.instead)


_COMPREHENSION = Refusal(
    "a comprehension",
    "builds a Python object",
    "a list gives a local array its elements, with one loop for each list: `x: float[4] = [f(i) for i in range(4)]`",
)
_TRY = Refusal("`try`", "nothing raises on a GPU", "test the condition with `if`, or state it with `assert`")
_IMPORT = Refusal(
    "`import` inside a function",
    "Snap reads names when the function is defined",
    "import at the top of the file; the function may use the name",
)
_ASYNC = "asynchronous work is written as `async_copy(...)`; the compiler adds the waits"
_YIELD = Refusal("`yield`", "a function returns once", "write results into an array, or use `return`")
_GLOBAL = Refusal(
    "`global`",
    "names bound outside are constants",
    "pass the value as a parameter, or write it through a pointer parameter",
)
_FORMAT = Refusal(
    "an f-string",
    "text is made before the kernel runs",
    'build the string outside the function and use it by name; `print("x =", x)` takes values beside texts',
)

_NONE = "instead of `None`, pass a `bool` beside the value, or choose with `constexpr(bool)`"

REFUSED: dict[str, Refusal] = {
    # statements
    "FunctionDef": Refusal(
        "a function inside a function",
        "nested `def`",
        "define it outside, with `@device(thread)` above it, or with `@inline`",
    ),
    "AsyncFunctionDef": Refusal("`async def`", "a kernel does not await", f"write a plain `def`; {_ASYNC}"),
    "ClassDef": Refusal(
        "`class`", "there are no objects in a kernel", "use variables, local arrays, or vectors such as `float4`"
    ),
    "Delete": Refusal(
        "`del`", "a name ends with its block", "remove it; a variable lives until the block it was declared in ends"
    ),
    "AsyncFor": Refusal("`async for`", "a loop does not await", f"write a plain `for`; {_ASYNC}"),
    "AsyncWith": Refusal("`async with`", "a scope does not await", f"write a plain `with`; {_ASYNC}"),
    "Raise": Refusal("`raise`", "nothing raises on a GPU", "state what must hold with `assert condition`"),
    "Try": _TRY,
    "TryStar": _TRY,
    "Import": _IMPORT,
    "ImportFrom": _IMPORT,
    "Global": _GLOBAL,
    "Nonlocal": Refusal("`nonlocal`", _GLOBAL.why, _GLOBAL.instead),
    "TypeAlias": Refusal(
        "`type` inside a function", "types are constants", "bind the type to a name outside the function"
    ),
    # expressions
    "NamedExpr": Refusal("`:=`", "expressions have no effects", "assign in a statement of its own, before this one"),
    "Dict": Refusal("a dictionary", "there are no hash tables in a kernel", "use a local array indexed by an integer"),
    "Set": Refusal(
        "a set", "there are no hash tables in a kernel", "use a local array, or an integer with one bit per element"
    ),
    "ListComp": _COMPREHENSION,
    "SetComp": _COMPREHENSION,
    "DictComp": _COMPREHENSION,
    "GeneratorExp": _COMPREHENSION,
    "Await": Refusal("`await`", "a kernel does not await", _ASYNC),
    "Yield": _YIELD,
    "YieldFrom": _YIELD,
    "JoinedStr": _FORMAT,
    "FormattedValue": _FORMAT,
    "TemplateStr": Refusal("a template string", _FORMAT.why, _FORMAT.instead),
    "Interpolation": Refusal("a template string", _FORMAT.why, _FORMAT.instead),
    "Starred": Refusal(
        "`*` unpacking", "the number of values must be written out", "write each value: `f(a[0], a[1])`"
    ),
    "Slice": Refusal(
        "a slice",
        "an index names one element",
        "index one element at a time, `with each(thread, y) as i:` and `y[i] = x[i]`, or take a box, `tile(x,"
        " at, shape)`",
    ),
    "In": Refusal(
        "`in`", "there are no containers in a kernel", "compare explicitly: `x == a or x == b`, or loop over the array"
    ),
    "NotIn": Refusal(
        "`not in`",
        "there are no containers in a kernel",
        "compare explicitly: `x != a and x != b`, or loop over the array",
    ),
    "Is": Refusal("`is`", "values have no identity", f"compare with `==`; {_NONE}"),
    "IsNot": Refusal("`is not`", "values have no identity", f"compare with `!=`; {_NONE}"),
    # constants
    "NoneType": Refusal(
        "`None`",
        "every value is a number, a vector or memory",
        f"{_NONE}; a function without a result ends with plain `return`",
    ),
    "ellipsis": Refusal(
        "`...`",
        "stands for nothing here",
        "write `pass` for an empty body; in a shape it is the first extent, `shape=(..., 8)`",
    ),
    "complex": Refusal("a complex number", "there is no complex type", "keep two floats, or a `float2`"),
    "bytes": Refusal(
        "a bytes literal", "there are no strings in a kernel", "write integers, and pass data as a `ptr(u8)` parameter"
    ),
}

KEYWORD_UNPACKING = Refusal("`**` unpacking", "arguments must be written out", "write each argument: `f(x=a, y=b)`")
FOR_ELSE = Refusal(
    "`else` on a loop",
    "runs when the loop did not break",
    "set a `bool` before `break` and test it after the loop with `if`",
)
FOR_TARGET = Refusal(
    "a loop over anything but one name",
    "the loop variable is one integer",
    "write `for i in range(n):`, or `for i, j in range(shape=(m, n)):`",
)
MANY_TARGETS = Refusal("`a = b = value`", "several targets", "write one assignment for each name")
TUPLE_TARGET = Refusal(
    "several targets in one",
    "a target inside of a target",
    "`a, b = b, a` has one row of targets: assign the others apart",
)
STRANGE_TARGET = Refusal(
    "this assignment target", "neither a name, an element nor a component", "assign to a name, `x[i]` or `v.x`"
)
ANNOTATED_TARGET = Refusal(
    "an annotation on an element", "only names are declared", "declare the array once, then assign: `x[i] = value`"
)
WITH_TARGET = Refusal(
    "unpacking in `with`", "a scope gives one name", "write `as name`; an `each` with a shape has several, `as (i, j)`"
)
EXTRA_PARAMETER = Refusal(
    "a `*`, `**` or keyword-only parameter",
    "parameters are passed by position",
    "name each parameter; use an array where their number varies",
)
TYPE_PARAMETER = Refusal(
    "a type parameter",
    "functions are generic in values",
    "take a `constexpr(...)` parameter: `def f(T: constexpr(int), ...)`",
)
LAMBDA_PARAMETER = Refusal(
    "a default, `*` or keyword-only parameter of a lambda",
    "an index function takes plain indices",
    "leave it out: outside variables are captured when the scope is entered",
)
TEXT = Refusal(
    "a string as a value",
    "there are no strings in a kernel",
    'strings are arguments only, as in `order="relaxed"`; `print("x =", x)` shows values beside text',
)
TEXT_INDEX = Refusal(
    "a string as an index",
    "there are no dictionaries in a kernel",
    "fields of a named tuple, or of a frozen dataclass, are constants: make it one outside of the function, and write"
    " `config.FIELD`",
)
TEXT_STATEMENT = Refusal("a string as a statement", "has no meaning here", "write a comment with `#`")
ANNOTATION_TEXT = Refusal(
    "this text as an annotation",
    "cannot be read as an expression",
    'write a type and a privilege: `"float @ thread[1]"`',
)
ASSERT_MESSAGE = Refusal(
    "a computed message in `assert`",
    "must be a string literal",
    'write the text itself: `assert x > 0, "x is positive"`',
)
CASE_GUARD = Refusal(
    "a guard on `case`", "a case is chosen by position, not by a test", "put an `if` inside the case's body"
)
CASE_CAPTURE = Refusal(
    "a name as a `case`",
    'Python reads it as "anything, called so"',
    "write the number itself, or name the sizes in the match: `match split(thread, P, C)` with `case 0:` and `case 1:`",
)
CASE_PATTERN = Refusal(
    "this pattern", "a case is one size", "write an integer, `case 128:`, or `case _:` for what is left"
)
CASE_OR = Refusal("`|` in a `case`", "a case is one group of units", "write one `case` for each size")

_ARRAYS = "an array is `x: ptr(float)` as a parameter, and `x: float[4]` in the function"
_PYTHON_ONLY: dict[str, str] = {
    "len": (
        "pass the length as a parameter, `n: int`; the size of a local or shared array is the constant in its"
        " declaration"
    ),
    "enumerate": "loop over indices: `for i in range(n):`",
    "zip": "loop over indices: `for i in range(n):`",
    "reversed": "count down by hand: `x[n - 1 - i]`",
    "sorted": "sort in the kernel by hand, or before the launch",
    "sum": "add in a loop, or over a warp with `intrinsic.reduce_add(v)`",
    "map": "write a `for i in range(...)` loop",
    "filter": "write a `for i in range(...)` loop with an `if` inside",
    "any": "over a warp write `intrinsic.any(v)`, over a block `intrinsic.syncthreads_or(v)`",
    "all": "over a warp write `intrinsic.all(v)`, over a block `intrinsic.syncthreads_and(v)`",
    "isinstance": "a type is known when the function is checked: choose with a `constexpr` parameter",
    "type": "a type is known when the function is checked: cast with `int(x)`, `float(x)`",
    "list": _ARRAYS,
    "tuple": f"a tuple's type has those of its values, `tuple[int, float]`; {_ARRAYS}",
    "dict": "there are no hash tables in a kernel: use an array, indexed by an integer",
    "set": "there are no hash tables in a kernel: use an array of flags",
    "str": (
        'there are no strings in a kernel: pass a number, or choose with `constexpr(int)`; `print("x =", x)`'
        " shows values"
    ),
    "input": "pass it as a parameter",
    "open": "read the file before the launch and pass its data as an array",
    "getattr": "write the attribute: `x.name`",
    "setattr": "assign it: `x.name = value`",
    "eval": "write the expression itself",
    "exec": "write the statements themselves",
}


def python_only(name: str) -> Refusal | None:
    """A builtin of Python that programmers reach for and Snap does not have."""
    instead = _PYTHON_ONLY.get(name)
    return None if instead is None else Refusal(f"`{name}(...)`", "a Python builtin", instead)


def refusal_of(kind: str) -> Refusal:
    """For an `ast` class name, or the type name of a constant."""
    return REFUSED.get(kind) or Refusal(
        f"Python's `{kind}`", "not one of Snap's statements and expressions", "docs/language.md lists what there is"
    )
