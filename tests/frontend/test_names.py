"""Outside names are taken from the closure and the globals, at the time of definition."""

from __future__ import annotations

from snap._compiler.frontend.parse import parse_definition_names, parse_function


def captured(function) -> dict:
    return parse_definition_names(parse_function(function), function)


def test_globals_and_builtins(define):
    names = define("""
        N = 3
        unused = 4
        def f(x):
            for i in range(N):
                x[i] = max(N, missing.thing)
    """)
    assert captured(names["f"]) == {"N": 3}
    names["N"] = 5
    assert captured(names["f"]) == {"N": 5}


def test_a_builtin_bound_outside_counts(define):
    assert captured(define("def f(x):\n    return max(x, 1)", max="ours")["f"]) == {"max": "ours"}


def test_closures(define):
    names = define("""
        bias = "global"
        def make(bias, unused, early):
            def f(x):
                return x + bias + late + early
            first = f
            capture(f)
            late = 3
            return f
    """, capture=lambda f: early.update(captured(f)))
    early: dict = {}
    function = names["make"](10, 11, 12)
    assert early == {"bias": 10, "early": 12}  # `late` was not bound yet
    assert captured(function) == {"bias": 10, "early": 12, "late": 3}


def test_own_names_are_not_captured(define):
    names = define("""
        n = 7; i = 8; s = 9; k = 10; p = 11
        def f(p):
            if p:
                n = 3
            for i in range(2):
                pass
            with scope() as s:
                pass
            g(f=lambda k: k + n)
            return n + i + s
    """, scope=1, g=2)
    assert captured(names["f"]) == {"scope": 1, "g": 2}


def test_a_lambdas_parameter_is_captured_only_outside_of_it(define):
    assert captured(define("def f(x):\n    g(lambda k: k)\n    return k", k=1, g=2)["f"]) == {"g": 2, "k": 1}


def test_annotations(define):
    names = define("""
        def f(x: "ptr(T, (M, x))", M: "constexpr(int)") -> "T @ block[1]":
            y: T[N] @ thread[1]
            block: int @ block[1] = 3
            return block
    """, T=1, N=2, thread=3, block=4, ptr=5, constexpr=6, M=7)
    assert captured(names["f"]) == {"T": 1, "N": 2, "thread": 3, "block": 4, "ptr": 5, "constexpr": 6, "M": 7}


def test_postponed_annotations_see_the_defining_function(define):
    names = define("""
        from __future__ import annotations
        N = "global"
        def make(N, T):
            @decorator
            def f(x: ptr(T)):
                y: float[N]
            return f
    """, decorator=lambda f: found.update(captured(f)) or f)
    found: dict = {}
    names["make"](16, "f32")
    assert found == {"N": 16, "T": "f32"}


def test_annotations_in_a_class(define):
    found: dict = {}
    define("""
        from __future__ import annotations
        class Kernels:
            N = 4
            @decorator
            def f(x: float[N]):
                return x
    """, decorator=lambda f: found.update(captured(f)) or f)
    assert found == {"N": 4}
