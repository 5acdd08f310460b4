# pyright leaves the body and the annotations of a function alone that is decorated with `no_type_check` of `typing`, of
# `builtins`, or of a stub with this file's name.  Typing's own gives back a plain function; this one gives back what
# Snap's decorators do.  There is no such module when a program runs: __init__.pyi alone imports it.
from snap.api import SnapFunction

def no_type_check(function: object, /) -> SnapFunction: ...
