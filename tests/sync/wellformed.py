"""What holds of the names in every typed kernel, checked."""

from __future__ import annotations

from snap.ir import nodes as ir
from snap.ir.walk import bodies, expressions, variables


def well_formed(function):
    """Nothing is declared twice, everything used is declared around it, and every statement is an object of its own."""
    seen, declared = set(), set()

    def use(var, scope):
        assert var.uid in scope, f"{var.name} is not declared where it is used"

    def memory(handle, scope):
        while handle is not None:
            assert handle.uid in scope and handle.obj.uid in scope, f"{handle.name} is not declared where it is used"
            handle = handle.base

    def declare(uid, name, scope):
        assert uid not in declared, f"{name} is declared twice"
        declared.add(uid)
        scope.add(uid)

    def body(statements, scope):
        scope = set(scope)
        for s in statements:
            assert id(s) not in seen, f"one {type(s).__name__} stands in two places"
            seen.add(id(s))
            inside = body(s.pre, scope) if isinstance(s, ir.While) else scope  # what comes before the condition is in its scope
            for e in expressions(s):
                match e:
                    case ir.Read(var) | ir.Elem(array=ir.ArrayRef(var=var)) | ir.ArrayValue(array=ir.ArrayRef(var=var)):
                        use(var, inside)
                    case ir.Load(access):
                        memory(access.handle, inside)
                        assert access.view.obj == access.handle.obj
                        for var in variables(*(access.view.shape or ())):
                            use(var, inside)
            match s:
                case ir.Declare(var):
                    declare(var.uid, var.name, scope)
                case ir.DeclareShared(obj, handle):
                    declare(obj.uid, obj.name, scope)
                    declare(handle.uid, handle.name, scope)
                case ir.For(var):
                    inside = set(scope)
                    declare(var.uid, var.name, inside)
                case ir.Partition(base, handle) | ir.Claim(base, handle):
                    memory(base, scope)
                    assert handle.base is base or handle.base == base
                    inside = set(scope)
                    declare(handle.uid, handle.name, inside)
                case ir.Assign(ir.VarTarget(var)):
                    use(var, scope)
                case ir.Assign(ir.MemTarget(access)):
                    memory(access.handle, scope)
            for inner in (s.body,) if isinstance(s, ir.While) else bodies(s):
                body(inner, inside)
        return scope

    start = set()
    for p in function.params:
        match p:
            case ir.MemParam(handle):
                start |= {handle.uid, handle.obj.uid}
            case ir.ValueParam(var):
                start.add(var.uid)
    body(function.body, start)
