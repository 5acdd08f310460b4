"""Statements in which threads act together or on memory, as Python source: groups, splits, partitions, collectives,
atomics, calls, copies of elements.
"""

from __future__ import annotations

from contextlib import contextmanager

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.synced import MEETS
from snap._compiler.ir.types import BLOCK1, Level, Privilege, Vector, scalar_of
from snap._compiler.ir.walk import own_expressions
from snap.machine.lanes.lanes import Watched
from snap.machine.lanes.locals import Layout
from snap.machine.source.expressions import Expressions
from snap.machine.source.positions import entered, sharded


class Actions(Expressions):
    # What `Statements`, which stands on this, does with bodies and values.

    def body(self, body: ir.Body) -> str:
        raise NotImplementedError

    def arm(self, body: ir.Body, mask: str) -> str:
        raise NotImplementedError

    def pause(self) -> None:
        raise NotImplementedError

    def assign(self, target: ir.Target, value: str) -> None:
        raise NotImplementedError

    def store(self, a: ir.MemAccess, value: str) -> None:
        raise NotImplementedError

    # ---- groups ----

    def group(self, s: ir.Group) -> None:
        before = self.relative
        self.relative = entered(before, s.outer, s.privilege.level, s.privilege.n)
        with self.entering(s.number, s.privilege):
            self.mask = self.body(s.body)
        self.relative = before

    @contextmanager
    def entering(self, number: int, together: Privilege):
        """Where a warp is, is told to those who compare what it does with what others do (spoken.py)."""
        if not self.stepwise or not self.speaks:
            yield
            return
        where = self.bind("C.path", "w")
        self.emit(f"C.enter({number}, {together.n if together.level is Level.THREAD else 0})")
        yield
        self.emit(f"C.path = {where}")

    def split(self, s: ir.Split) -> None:
        at = self.position(s.level, self.relative[s.level])
        before, around = self.relative, None
        if self.stepwise and self.speaks:
            around = self.bind("C.path", "w")
            self.emit(f"C.enter({s.number}, 0)")
        for case in s.cases:
            inside = f"{at} >= np.int32({case.offset})"
            held = s.outer.held(s.level)
            if not case.rest:
                inside = f"({inside}) & ({at} < np.int32({case.offset + case.size}))"
            elif held.count is not None and not held.open:
                # What is left over behind the last full group skips the statement.
                end = case.offset + (held.count - case.offset) // case.size * case.size
                inside = f"({inside}) & ({at} < np.int32({end}))"
            chosen = self.once(inside, "k")
            mask = self.bind(f"narrow({self.mask}, {chosen})", "m")
            self.relative = sharded(before, s.level, case)
            with self.indented(f"if {mask} is not False:"):
                if around is not None:
                    self.emit(f"C.in_case({case.offset})")
                self.arm(case.body, mask)
            self.relative = before
        if around is not None:
            self.emit(f"C.path = {around}")

    def partition(self, s: ir.Partition | ir.Claim) -> None:
        handle = s.handle
        if handle.disjoint:
            self.claims[handle.uid] = ((handle.uid, handle.privilege, s.place.privilege),)
        elif isinstance(self.function, ir.Function) and not self.stepwise and handle.uid in self.function.watched:
            part = Watched(handle.uid)
            self.claims[handle.uid] = ((part, handle.privilege, s.place.privilege),)
            if s.place.privilege.level is not Level.GRID or self.function.cooperative:
                name = self.intern(part, ("part", part), "P")
                self.emit(f"C.launch.renew({name})")
        self.mask = self.body(s.body)

    # ---- collectives ----

    def collective(self, s: ir.Collective) -> None:
        if s.op == "setmaxnreg":  # how many registers a thread may hold means nothing here
            return
        self.pause()
        op = COLLECTIVES[s.op]
        if op.barrier and (self.stepwise or s.targets):
            self.barrier_collective(s)
            return
        if op.barrier:
            return
        results = self.warp_collective(s)
        if not s.targets:
            self.emit(results)
            return
        name = self.bind(results, "x")
        for k, target in enumerate(s.targets):
            self.assign(target, name if len(s.targets) == 1 and s.op not in _SEVERAL else f"{name}[{k}]")

    def warp_collective(self, s: ir.Collective) -> str:
        args, n = [self.expr(a) for a in s.args], s.requires.n
        match s.op:
            case "shfl_xor" if n < WARP:  # stays within the part
                return f"shfl_xor(C, {args[0]}, {args[1]} & np.int32({n - 1}), {s.attr('width', n)})"
            case "shfl" | "shfl_up" | "shfl_down" | "shfl_xor":
                return f"{s.op}(C, {args[0]}, {args[1]}, {s.attr('width', n)})"
            case "any" | "all":
                return f"warp_{s.op}(C, {args[0]}, {n})"
            case "ballot":
                return f"ballot(C, {args[0]}, {n})"
            case "match_any" | "match_all":
                return f"{s.op}(C, {args[0]}, {self.type(s.args[0].type)}, {n})"
            case "elect":
                return f"elect(C, {self.mask}, {n})"
            case "mma":
                shape = f"{s.attr('shape')!r}, {bool(s.attr('saturate'))}"
                return f"mma(C, {s.attr('kind')!r}, ({', '.join(args)},), {shape})"
            case "ldmatrix" | "stmatrix":
                a = s.accesses[0]
                self.check_claims(a, COLLECTIVES[s.op].writes)
                values = f"({', '.join(args)},), " if args else ""
                shape = f"{int(s.attr('count', 1))}, {bool(s.attr('trans', False))}"
                return (
                    f"{s.op}({self.view_of(a)}, {self.place_of(a)}, {shape},"
                    f" {values}{self.site(s.span, a.handle.name)})"
                )
            case _ if s.op.startswith("reduce_"):
                return f"reduce(C, {args[0]}, {s.op[7:]!r}, {self.type(s.args[0].type)}, {n})"
            case _:
                raise ValueError(f"unknown collective {s.op}")

    def barrier_collective(self, s: ir.Collective) -> None:
        """One that its whole group waits for."""
        value = self.expr(s.args[0]) if s.args else "None"
        source = int(s.attr("source", 0) or 0)
        if not self.stepwise:
            blocks = {Level.CLUSTER: "C.launch.blocks_per_cluster", Level.GRID: "C.shape[0]"}.get(s.requires.level, 1)
            text = f"combine({s.op!r}, C.full({value}), {source}, {blocks})"
        else:
            site = self.site(s.span, s.op)
            kind = MEETS[s.requires.level]
            text = (
                f"(yield from C.meet(PointKind.{kind.name}, {self.group_of(s.requires)}, {self.mask}, {site}, {s.op!r},"
                f" {value}, {source}))"
            )
        if s.targets:
            self.assign(s.targets[0], self.bind(text, "x"))
        else:
            self.emit(text)

    def group_of(self, p: Privilege) -> str:
        """How a thread finds the aligned group of `p` it belongs to: its index in the current group, and how many there
        are in a group.
        """
        return f"{self.position(Level.THREAD, self.relative[Level.THREAD])}, {p.n if p.level is Level.THREAD else 0}"

    # ---- asynchronous copies of elements ----

    def async_copy(self, s: ir.AsyncCopy) -> None:
        """In reference mode it has arrived at once."""
        valid, read, first = "None", self.mask, "None"
        if s.elements is not None:
            count = self.bind(self.expr(s.elements))
            valid, first = self.bind(f"{count} > 0"), f"({self.type(s.source.view.obj.elem)}, {count})"
        elif s.valid is not None:
            valid = self.bind(self.expr(s.valid))
        if valid != "None":
            read = self.bind(f"narrow({self.mask}, {valid})", "m")
        if not self.stepwise:
            self.store(s.target, self.copied(s, valid, read, first))
            return
        ends = []
        for a, mask in ((s.target, self.mask), (s.source, read)):
            ends.append(f"({self.view_of(a)}, {self.tupled(a.index)}, {self.dims(a.view)})")
            with self.indented(f"if {mask} is not False:"), self.masked(mask):
                self.check_claims(a, a is s.target, first="None" if a is s.target else first)
        sites = ", ".join(self.site(a.span, a.handle.name) for a in (s.target, s.source))
        self.emit(f"C.copies.issue({', '.join(ends)}, {self.mask}, ({sites}), {valid}, {first})")
        self.pause()

    def copied(self, s: ir.AsyncCopy, valid: str, read: str, first: str) -> str:
        """What a copy brings: where it is not valid, zero, and its source is not looked at; of what the source has
        more elements than are read, zero for the others.
        """
        load = ir.Load(s.source, s.source.view.elem, span=s.source.span)
        if valid == "None":
            return self.load(load)
        for i in s.source.index:
            self.bind(self.expr(i))
        value = self.bind("None")
        with self.indented(f"if {read} is not False:"), self.masked(read):
            if s.elements is None:
                self.emit(f"{value} = {self.load(load)}")
            else:
                self.check_claims(s.source, False, first=first)
                site = self.site(s.source.span, s.source.handle.name)
                self.emit(f"{value} = {self.view_of(s.source)}.load_first({self.place_of(s.source)}, *{first}, {site})")
        elem = s.target.view.elem
        zero: ir.Expr = ir.Const(0, scalar_of(elem), span=s.span)
        if isinstance(elem, Vector):
            zero = ir.MakeVector((zero,) * elem.lanes, elem, span=s.span)
        return f"merge({valid}, {value}, {self.expr(zero)})"

    def evaluated(self, s: ir.Prefetch | ir.BoxPrefetch | ir.Sleep) -> None:
        """Caches and time mean nothing here; what the operands read is read."""
        for e in own_expressions(s):
            self.bind(self.expr(e))

    # ---- atomics, unsafe ----

    def atomic(self, s: ir.Atomic) -> None:
        self.pause()
        self.check_claims(s.access, s.op != "load", atomic=True)
        wanted = s.target is not None
        args = "".join(f"{self.expr(a)}, " for a in s.args)
        site = self.site(s.span, s.access.handle.name)
        order = self.intern(s.order, ("order", s.order), "O")
        view, place = self.view_of(s.access), self.place_of(s.access)
        text = f"atomic({view}, {s.op!r}, {place}, ({args}), {wanted}, {order}, {site})"
        with self.entering(s.number, BLOCK1):
            if self.stepwise and self.speaks:
                self.emit(f"C.does = {s.op!r}, {wanted}")
            text = self.bind(text, "x") if wanted else text
            if not wanted:
                self.emit(text)
        if wanted:
            self.assign(s.target, text)

    def unsafe(self, s: ir.Unsafe) -> None:
        self.pause()
        values = ", ".join(f"{name!r}: {self.expr(value)}" for name, value in s.values)
        memory = ", ".join(f"{name!r}: ({self.view_of(a)}, {self.place_of(a)})" for name, a in s.memory)
        cpu = self.intern(s.cpu, ("unsafe", s.number), "U")
        result = "None" if s.type is None else self.type(s.type)
        text = f"unsafe(C, {cpu}, {self.mask}, {{{values}}}, {{{memory}}}, {result}, {self.site(s.span, 'unsafe')})"
        if s.target is None:
            self.emit(text)
        else:
            self.assign(s.target, self.bind(text, "x"))

    # ---- calls ----

    def call(self, s: ir.Call) -> None:
        args: list[str] = []
        back: list[str] = []
        for arg, handle in zip(s.args, s.handles):
            match arg:
                case ir.MemView(obj):
                    args += [self.storage(obj), self.passed_claims(handle)]
                case ir.ArrayRef():
                    args.append(self.reference(arg, back, s.span))
                case _:
                    args.append(self.expr(arg))
        at = ", ".join(
            self.position(level, self.relative[level]) for level in (Level.CLUSTER, Level.BLOCK, Level.THREAD)
        )
        text = f"{self.functions[s.function.uid]}(C, {self.mask}, {at}, frame + {s.smem_offset}, {', '.join(args)})"
        if self.stepwise:
            text = f"(yield from {text})"
        with self.entering(s.number, s.function.place.privilege):
            result = self.bind(text, "x")
        for line in back:
            self.emit(line)
        if s.target is not None:
            self.assign(s.target, result)

    def reference(self, ref: ir.ArrayRef, back: list[str], span) -> str:
        """A local array, or a window of one, passed by reference; one that is seen as another type is copied in and
        out.
        """
        name = self.registers(ref, span)
        if Layout.of(ref).plain:
            return self.bind(name) if ref.at else name
        name = self.bind(name) if ref.at else name
        copy = self.bind(f"passed({name}, {self.layout(ref)})")
        back.append(f"{name}[:] = {self.layout(ref)}.as_stored({copy})")
        return copy

    def passed_claims(self, handle: ir.Handle | None) -> str:
        """What the caller's handle promises, for the callee to be held to."""
        borrowed, claims = "()", list[str]()
        while handle is not None:
            claims += self.claims.get(handle.uid, ())
            borrowed = self.borrowed.get(handle.uid, borrowed)
            handle = handle.base
        return f"{self.intern(tuple(claims), ('claims', tuple(claims)), 'Q')} + {borrowed}" if claims else borrowed


_SEVERAL = ("mma", "ldmatrix")
