"""The commands as a user types them: output, exit codes, and whose fault a failure is said to be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from corpus import TESTS

from snap.cli import main

GOOD = """\
from snap import *

@kernel
@requires(grid[1], block[1], thread[32])
def double(x: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            mine[0] = mine[0] * 2
"""

BAD = """\
from snap import *

@kernel
@requires(grid[1], block[1], thread[32])
def first(x: ptr(int) @ grid[1]):
    with group(thread[5]):
        pass
    with group(cluster[1]):
        pass

@kernel
@requires(grid[1], block[1], thread[32])
def second(x: ptr(int) @ grid[1]):
    x[0] = 1
"""

GENERIC = """\
from snap import *

@kernel
@requires(lambda T: (grid[1], block[1], thread[T]))
def fill(x: ptr(int) @ grid[1], T: constexpr(int)):
    with group(grid[1]):
        with partition(x, p=block[1], offset=id() * T) as part:
            with group(block[1]):
                i: int @ thread[1] = id()
                with partition(part, p=thread[1], offset=i) as mine:
                    mine[0] = T
"""


@pytest.fixture
def snap_command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["snap", *args])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        code = stopped.value.code
        return (0 if code is None else code), out, err

    return run


def write(name, text):
    Path(name).write_text(text)
    return name


# ---- check -------------------------------------------------------------------------------------------------------------------------------


def test_version(snap_command):
    import snap

    code, out, err = snap_command("--version")
    assert (code, out, err) == (0, f"snap {snap.__version__}\n", "")


def test_check_good(snap_command):
    assert snap_command("check", write("good.py", GOOD)) == (0, "", "1 file: no errors\n")


def test_check_reports_all_errors_of_all_functions(snap_command):
    code, out, err = snap_command("check", write("good.py", GOOD), write("bad.py", BAD))
    assert code == 1
    assert [line.split("]")[0] for line in out.splitlines() if line.startswith("error[")] == [
        "error[SNAP002",
        "error[SNAP001",
        "error[SNAP009",
    ]
    assert "bad.py:6:10" in out and "bad.py:14:" in out and err == "2 files: 3 errors\n"


def test_what_is_wrong_with_a_decorator_hides_nothing_behind_it(snap_command):
    text = """
from snap import *

@kernel(threads=(8, 8))
def first(x: ptr(float)):
    pass

@kernel
@requires(grid[1], block[1], thread[64.0])
def second(x: ptr(float)):
    pass

@requires(grid[1], block[1], thread[64], resident=0)
@kernel
def third(x: ptr(float)):
    pass

@device(smem=-1)
def fourth(x: float):
    pass

@kernel(threads=64)
def fifth(x: ptr(float)):
    x[0] = 1.0
    fourth(1.0)
"""
    code, out, _ = snap_command("check", write("several.py", text))
    places = [line.rpartition("several.py:")[2] for line in out.splitlines() if "several.py:" in line]
    assert code == 1 and places == ["4:1", "9:1", "13:1", "18:1", "24:5", "25:5"], out
    assert "`y, x = ids(thread, shape=(8, 8))`" in out


def test_check_json(snap_command):
    code, out, err = snap_command("check", "--json", write("bad.py", BAD), write("worse.py", "def f(:\n"))
    found = json.loads(out)
    assert code == 1 and err == ""
    assert [entry["code"] for entry in found] == ["SNAP002", "SNAP001", "SNAP009", None]
    assert found[0]["file"] == "bad.py" and found[0]["range"]["start"] == {"line": 6, "column": 10}
    assert (
        found[3]["file"] == "worse.py"
        and "SyntaxError" in found[3]["message"]
        and found[3]["range"]["start"]["line"] == 1
    )
    assert snap_command("check", "--json", write("good.py", GOOD))[:2] == (0, "[]\n")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("x = (\n", "SyntaxError"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("raise SystemExit(3)\n", "sys.exit(3)"),
        ("x = '\0'\n", "null"),
    ],
)
def test_check_failures_of_the_file_itself(snap_command, text, expected):
    code, out, err = snap_command("check", write("broken.py", GOOD + text))
    assert code == 1 and expected in out and "1 error" in err
    assert "src/snap" not in out and "runpy" not in out and "cli/load" not in out


def test_check_keeps_errors_found_before_a_failure(snap_command):
    code, out, _ = snap_command("check", write("both.py", BAD + "1 / 0\n"))
    assert code == 1 and "SNAP009" in out and "ZeroDivisionError" in out and 'File "both.py", line 15' in out


def test_check_file_that_exits_quietly(snap_command):
    assert snap_command("check", write("exits.py", GOOD + "raise SystemExit\n"))[0] == 0


def test_check_sees_files_beside_it_and_not_main(snap_command):
    write("beside.py", "from snap import *\nSIZE = 4\n")
    text = "import beside\nassert __name__ != '__main__'\nfrom dataclasses import dataclass\n@dataclass\nclass C:\n    x: int\n"
    assert snap_command("check", write("user.py", text))[0] == 0
    assert "__snap_user__" not in sys.modules


def test_check_of_undecodable_text(snap_command):
    Path("latin.py").write_bytes("# é\n".encode("latin-1"))
    code, out, _ = snap_command("check", "latin.py")
    assert code == 1 and "latin.py" in out


@pytest.mark.parametrize(
    "args",
    [
        ("check",),
        ("check", "missing.py"),
        ("check", "."),
        ("cuda", "missing.py"),
        ("cuda", "missing.py:k"),
        ("run", "."),
        ("fly",),
        ("explain",),
        ("check", "--nonsense", "x.py"),
    ],
)
def test_usage_errors(snap_command, args):
    code, out, err = snap_command(*args)
    assert code == 2 and err and not out


@pytest.mark.parametrize("use", ["k[1](x)", "k(x)", "print(k.prove())"])
def test_a_refused_kernel_that_the_file_uses_is_one_error(snap_command, use):
    body = "    with each(thread) as i:\n        v: int = nothing\n\n\n"
    write("used.py", f"from snap import *\n\n\n@kernel(threads=32)\ndef k(x: ptr(int)):\n{body}x = None\n{use}\n")
    [entry] = json.loads(snap_command("check", "used.py", "--json")[1])
    assert entry["code"] == "SNAP019"
    code, _, err = snap_command("prove", "used.py")
    assert code == 1 and "SNAP019" in err and "Traceback" not in err


PROVED, REFUTED = "lambda x, n: len(x) >= n", "lambda x, n: len(x) >= n - 1"
ONE = """\
from __future__ import annotations
from snap import *


@kernel(threads=32, where={where})
def {name}(x: ptr(float), n: int):
    with each(thread, x) as i:
        if i < n:
            x[i] = 1.0


"""


def test_prove_for_tools(snap_command, monkeypatch, tmp_path):
    """A list of proofs on standard output, each with its verdict, what it assumed, and each obligation at its place; 1 where one is not proved."""
    pytest.importorskip("z3"), pytest.importorskip("islpy")
    monkeypatch.setenv("SNAP_CACHE_DIR", str(tmp_path / "cache"))  # what was proved before is known
    write(
        "both.py",
        ONE.format(name="good", where=PROVED)
        + ONE.format(name="bad", where=REFUTED).removeprefix("from __future__ import annotations\n"),
    )
    code, out, err = snap_command("prove", "both.py", "--json")
    good, bad = json.loads(out)
    assert code == 1 and not err
    assert (good["kernel"], good["verdict"], bad["kernel"], bad["verdict"]) == ("good", "proved", "bad", "refuted")
    assert good["assumed"][0] == "where len(x) >= n (checked at every launch)" and good["properties"] == [
        "bounds",
        "races",
        "init",
        "order",
    ]
    assert {o["severity"] for o in good["obligations"]} == {"information"}
    [wrong] = [o for o in bad["obligations"] if o["severity"] == "error"]
    assert wrong["code"] == "SNAP023" and wrong["range"]["start"]["line"] == 19 and "n = 1" in json.dumps(wrong)
    write("slow.py", ONE.format(name="slow", where="lambda x, n: len(x) >= n + 1"))
    code, out, _ = snap_command("prove", "slow.py", "--seconds", "0.000001")
    assert code == 1 and "slow: unknown" in out and "stopped after 1e-06 s; not reached, and neither shown nor refuted:" in out
    code, out, _ = snap_command("prove", "slow.py", "--seconds", "0")
    assert code == 0 and "slow: proved" in out
    code, out, _ = snap_command("prove", "both.py:good", "--json", "--property", "bounds")
    [only] = json.loads(out)
    assert code == 0 and only["properties"] == ["bounds"]
    assert snap_command("prove", "both.py:good", "--json", "--property", "speed")[0] == 2


def test_what_is_refused_is_json_as_well(snap_command):
    """The diagnostics, as `snap check --json` prints them: for a kernel that the checker refuses, for one that does not reach the checker, and for a generic one that is refused for these values."""
    fives = GENERIC.replace("                i: int", "                with group(thread[5]):\n                    pass\n                i: int")
    write("bad.py", BAD), write("worse.py", "def f(:\n"), write("fives.py", fives)
    for words in (("bad.py",), ("worse.py",), ("fives.py", "--set", "T=64")):
        code, out, err = snap_command("prove", "--json", *words)
        assert (code, err) == (1, "") and json.loads(out) and out == snap_command("check", "--json", *words)[1]


def test_a_file_that_is_not_there_is_named_before_anything_else(snap_command):
    assert snap_command("check", "") == (2, "", "error: the name of a file is empty\n")
    assert snap_command("ptx", "missing.ptx") == (2, "", "error: missing.ptx: no such file\n")
    write("there.ptx", ".version 8.0\n")
    assert snap_command("ptx", "there.ptx")[::2] == (2, "error: there.ptx is PTX already: `snap ptx run there.ptx` runs it\n")


def test_check_says_which_generic_kernels_it_did_not_check(snap_command):
    write("both.py", GOOD + GENERIC.removeprefix("from snap import *\n"))
    note = "`fill` is generic and was not checked: give --set T=..."
    assert snap_command("check", "both.py") == (0, "", f"both.py:13: {note}\n1 file: no errors, 1 kernel not checked\n")
    [entry] = json.loads(snap_command("check", "both.py", "--json")[1])
    assert (entry["severity"], entry["message"], entry["range"]["start"]["line"]) == ("information", note, 13)
    assert snap_command("check", "both.py", "--set", "T=64") == (0, "", "1 file: no errors\n")


def test_check_of_a_generic_kernel_is_for_the_values_given(snap_command):
    text = GENERIC.replace(
        "                i: int",
        "                with group(thread[5]):\n                    pass\n                i: int",
    )
    assert snap_command("check", write("fives.py", text), "--set", "T=40")[0] == 0
    code, out, err = snap_command("check", "fives.py", "--set", "T=64")
    assert code == 1 and "error[SNAP002]" in out and err == "1 file: 1 error\n"
    code, _, err = snap_command("check", "fives.py", "--set", "U=64")
    assert code == 2 and "no kernel here has a constexpr parameter `U`" in err


# ---- cuda and explain --------------------------------------------------------------------------------------------------------------------


def test_cuda(snap_command):
    write("good.py", GOOD)
    code, out, err = snap_command("cuda", "good.py")
    assert (code, err) == (0, "") and "__global__" in out and "double" in out
    assert snap_command("cuda", "good.py:double")[1] == out


def test_cuda_of_a_file_with_errors(snap_command):
    code, out, err = snap_command("cuda", write("bad.py", BAD))
    assert code == 1 and not out and "error[SNAP009]" in err


@pytest.mark.parametrize(
    "target, expected",
    [
        ("good.py:nothing", "has no Snap function `nothing`; it has double"),
        ("good.py:1x", "name of a kernel"),
        ("none.py", "defines no kernel"),
    ],
)
def test_cuda_of_what_is_not_there(snap_command, target, expected):
    write("good.py", GOOD)
    write("none.py", "x = 1\n")
    code, out, err = snap_command("cuda", target)
    assert code == 2 and expected in err and not out


def test_generic_kernels_want_values(snap_command):
    write("generic.py", GENERIC)
    code, _, err = snap_command("cuda", "generic.py:fill")
    assert code == 2 and "give --set T=..." in err
    code, out, _ = snap_command("cuda", "generic.py:fill", "--set", "T=64")
    assert code == 0 and "64" in out
    for wrong, expected in (
        ("T", "takes NAME=VALUE"),
        ("T=many", "is not a number"),
        ("T=(1, 2)", "is not a number"),
        ("U=3", "no kernel here has a constexpr parameter `U`"),
    ):
        code, _, err = snap_command("cuda", "generic.py", "--set", wrong)
        assert code == 2 and expected in err


def test_generic_kernels_beside_others_are_noted(snap_command):
    code, out, err = snap_command("cuda", write("both.py", GOOD + GENERIC.removeprefix("from snap import *\n")))
    assert code == 0 and "double" in out and "`fill` is generic" in err


INSTANCES = """\
from __future__ import annotations
import numpy as np
from snap import *

@device(thread)
def twice(v: T, T: constexpr(type)) -> T:
    return v + v

@kernel(threads=32, blocks=1)
def k(y: ptr(T, (N,)), N: constexpr(int), T: constexpr(type)):
    with each(thread, y) as i:
        y[i] = twice(y[i])

@kernel(threads=32, blocks=1)
def other(y: ptr(T, (32,)), T: constexpr(type)):
    with each(thread, y) as i:
        y[i] = twice(y[i])

named = k.specialize(N=32, T=f64)
k(np.zeros(32, np.float32))
k(np.zeros(32, np.float32))
k.specialize(N=32, T=i8)(np.zeros(32, np.int8))
"""


def test_explain_shows_the_instances_that_a_file_makes(snap_command):
    """Launched, specialized, and under a name: each once.  What nobody has made wants values."""
    path = write("instances.py", INSTANCES)
    code, out, err = snap_command("explain", path)
    assert code == 0 and "`other` is generic: give --set T=..." in err and "`k` is generic" not in err
    assert [line.split(";")[0].strip() for line in out.splitlines() if line.startswith("  N = 32")] == [
        "N = 32, T = f32", "N = 32, T = i8", "N = 32, T = f64"
    ]
    assert out.count("called in line 12 of k") == 3
    code, out, _ = snap_command("explain", f"{path}:k", "--set", "T=i8")
    assert code == 0 and "N = 32, T = i8" in out and "f32" not in out
    code, _, err = snap_command("explain", f"{path}:k", "--set", "T=u8")
    assert code == 2 and "give --set N=..." in err
    code, _, err = snap_command("cuda", f"{path}:k")
    assert code == 2 and "give --set N=... --set T=..." in err


def test_explain(snap_command):
    code, out, err = snap_command("explain", write("good.py", GOOD))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "kernel double" and "grid[1], block[1], thread[32]" in lines[1]
    assert any(
        line.split("|")[0].split() == ["grid[1]", "8"] and "mine: `x` lowered from grid[1] to thread[1]" in line
        for line in lines
    )
    assert [line.split("|")[0].split()[-1] for line in lines[2:] if "==" not in line and "|" in line] == [
        str(n) for n in range(5, 10)
    ]


REVERSE = """\
from snap import *

@device
@requires(block[1], thread[64])
def through(x: ptr(int) @ block[1]):
    s: shared(int[64])
    t: int @ thread[1] = id()

    # comments keep their place
    with partition(x, p=thread[1], offset=t) as mine:
        with partition(s, p=thread[1], offset=t) as slot:
            slot[0] = mine[0]
    with partition(x, p=thread[1], offset=t) as mine:
        mine[0] = s[63 - t]

@kernel
@requires(grid[1], block[1], thread[64])
def reverse(x: ptr(int) @ grid[1]):
    with group(grid[1]):
        with partition(x, p=block[1], offset=64 * id()) as part:
            with group(block[1]):
                through(part)
"""


def test_explain_ir_and_passes(snap_command):
    code, out, err = snap_command("explain", "--ir", write("reverse.py", REVERSE))
    assert (code, err) == (0, "") and out.startswith("kernel ") and " barrier by " in out
    code, out, err = snap_command("explain", "--passes", write("reverse.py", REVERSE))
    assert (code, err) == (0, "")
    assert [row.split(":")[0] for row in out.splitlines() if row.startswith("# ")] == ["# parse", "# check", "# insert barriers", "# print"]


def test_explain_shows_callees_and_synchronization(snap_command):
    code, out, _ = snap_command("explain", write("reverse.py", REVERSE))
    lines = out.splitlines()
    titles = [line for line in lines if line and not line.startswith(" ") and "|" not in line]
    assert code == 0 and titles == ["kernel reverse", "device function through"]
    waits = [index for index, line in enumerate(lines) if "== __syncthreads: all 64 threads wait for `s`" in line]
    assert len(waits) == 1 and "slot[0] = mine[0]" in "".join(lines[waits[0] - 2 : waits[0]])
    assert any("s: shared i32[64] @ block[1], at byte 0" in line for line in lines)
    assert any("calls through as block[1]" in line for line in lines)
    comment = next(line for line in lines if "comments keep their place" in line)
    assert comment.split("|")[0].split() == ["block[1]", "9"]


TWICE = """\
from snap import *
from snap.lib import block as of_block

total = of_block.reduce(float)

@kernel
@requires(grid[1], block[1], thread[64], smem=16)
def twice(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(block[1]):
                a: float = total(x[i])
                b: float = total(x[i] * 2.0)
                mine[0] = a + b
"""


def test_explain_shows_a_barrier_before_the_call_that_needs_it(snap_command):
    _, out, _ = snap_command("explain", write("twice.py", TWICE))
    lines = out.splitlines()
    [barrier] = [
        index
        for index, line in enumerate(lines)
        if "== __syncthreads" in line and "line 1" in line and index < lines.index("")
    ]
    assert "a: float = total" in lines[barrier - 1] and "b: float = total" in lines[barrier + 1]


PIPELINED = """\
from snap import *

@kernel
@requires(grid[1], block[1], thread[64])
def sums(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                rows: pipeline(shared(int[64]), 3)
                t: int @ thread[1] = id()
                for k in range(n + 2):
                    if k < n:
                        with stage(rows, k) as row:
                            with partition(row, p=thread[1], offset=t) as cell:
                                async_copy(cell[0], x[k * 64 + t])
                    if k >= 2:
                        with stage(rows, k - 2) as row:
                            mine[0] = mine[0] + row[63 - t]
"""


def test_explain_shows_copies_and_their_waits(snap_command):
    code, out, _ = snap_command("explain", write("pipelined.py", PIPELINED))
    lines = out.splitlines()
    assert code == 0 and "2 synchronization points" in lines[1]  # in the loop, and at the block's end
    assert any("row: a stage of `rows`" in line for line in lines)
    copy = next(index for index, line in enumerate(lines) if "async_copy" in line)
    assert (
        "cp.async of 4 bytes per thread, asynchronous" in lines[copy] and "== cp.async.commit_group" in lines[copy + 1]
    )
    assert sum(line.endswith("cp.async.wait_group 1: at most 1 group in flight") for line in lines) == 1


def test_explain_shows_roles_as_they_are_written(snap_command):
    """The compiler takes the loop apart, one for each role; the listing is the user's text."""
    code, out, _ = snap_command("explain", str(TESTS / "ok" / "hgemm.py"))
    rows = [line.split("|", 1) for line in out.splitlines() if "|" in line]
    shown = {int(left.split()[-1]): (left.split()[0], text) for left, text in rows if left.split()[-1].isdigit()}
    assert code == 0 and "8 synchronization points" in out and sorted(shown) == list(range(min(shown), max(shown) + 1))
    for privilege, text in shown.values():
        word = text.split("#")[0].strip()
        if word.startswith(("At:", "Ct:", "compute, load", "for m, n in", "for k in", "with stage(", "with load(", "with compute(")):
            assert privilege == "block[1]", word
        if word.startswith("wgmma("):
            assert privilege == "thread[128]", word  # the other role's empty case says nothing of this line
        if word.startswith("with load("):
            assert "threads 256 .. 383" in text and "threads 0 .. 255" not in text
    added = [text.strip() for left, text in rows if not left.split()[-1].isdigit()]
    assert sum(text.startswith("== mbarrier") for text in added) == 2


CALLS = """\
from snap import *
from snap.lib import block as of_block

total = of_block.reduce(int, "add")

@kernel
@requires(grid[1], block[1], thread[64])
def sums(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                mine[0] = total(x[i])
"""


def test_explain_counts_the_points_of_callees_and_names_their_files(snap_command):
    code, out, _ = snap_command("explain", write("calls.py", CALLS))
    lines = out.splitlines()
    assert code == 0 and lines[1].endswith("no synchronization, but 1 in the functions it calls")
    assert any("== __syncthreads" in line and "of block.py" in line for line in lines)
    titles = [line for line in lines if line.startswith(("kernel", "device function"))]
    assert (
        titles[0] == "kernel sums"
        and titles[1].startswith("device function block_reduce, ")
        and titles[1].endswith("block.py")
    )


PASSES = """\
from snap import *

@kernel
@requires(grid[1], block[1], thread[64])
def nothing(x: ptr(int) @ grid[1]):
    with group(block[1]):
        match split(thread):
            case 32:
                pass
            case 32:
                v: int = 1
                # still these threads
                pass
        with group(thread[1]):

            pass
    with group(
        thread[1]
    ):
        pass
"""


def test_explain_says_who_passes(snap_command):
    code, out, _ = snap_command("explain", write("passes.py", PASSES))
    shown = {line.split("|")[1].strip(): line.split("|")[0].split()[0] for line in out.splitlines() if "still" in line}
    passes = [line.split("|")[0].split()[0] for line in out.splitlines() if line.endswith("pass")]
    assert (
        code == 0
        and passes == ["thread[32]", "thread[32]", "thread[1]", "thread[1]"]
        and list(shown.values()) == ["thread[32]"]
    )
    assert all(
        line.split()[0] == "grid[1]" for line in out.splitlines() if line.endswith(("group(", "  thread[1]", "  ):"))
    )


# ---- run ---------------------------------------------------------------------------------------------------------------------------------


def test_run(snap_command):
    text = "import sys\nprint(__name__, sys.argv)\nif __name__ == '__main__':\n    sys.exit(int(sys.argv[1]))\n"
    assert snap_command("run", write("prog.py", text), "5", "--flag") == (
        5,
        "__main__ ['prog.py', '5', '--flag']\n",
        "",
    )
    assert snap_command("run", write("quiet.py", "x = 1\n")) == (0, "", "")


def test_run_renders_snap_errors(snap_command):
    code, out, err = snap_command("run", write("bad.py", BAD))
    assert code == 1 and not out and "error[SNAP002]" in err and "error[SNAP001]" in err and "Traceback" not in err


def test_run_shows_the_users_frames_only(snap_command):
    code, _, err = snap_command("run", write("fails.py", GOOD + "def f():\n    double[1](3)\nf()\n"))
    assert (
        code == 1
        and 'File "fails.py", line 11' in err
        and "parameter `x` of `double`" in err
        and "src/snap" not in err.replace(os.sep, "/")
    )


STUCK = """
import numpy as np

@kernel
@requires(grid[1], block[1], thread[32])
def wait(x: ptr(int) @ grid[1]):
    with group(thread[1]):
        while atomic.load(x, 0) == 0:
            pass

"""


@pytest.mark.parametrize(
    "launch, told",
    [
        ("wait[1](np.zeros(1, np.int32))", "error[no progress]"),
        ("wait.launch(np.zeros(1, np.int32), blocks=1, seed=3)", "error[no progress]"),
        ("double[1](np.zeros(2, np.int32))", "error[out of bounds]"),
    ],
)
def test_run_shows_what_the_cpu_machine_found_and_nothing_of_its_own(snap_command, launch, told):
    code, _, err = snap_command("run", write("stuck.py", GOOD + STUCK + launch + "\n"))
    assert (
        code == 1 and told in err and err.count("Traceback") == 1 and err.count("  File ") == 1 and "<snap" not in err
    )


def test_python_dash_m(tmp_path):
    file = tmp_path / "good.py"
    file.write_text(GOOD)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-m", "snap", "check", str(file)], capture_output=True, text=True, timeout=60, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "") and "no errors" in done.stderr


SIZED = """\
from snap import *

@kernel(threads=32)
def sized(x: ptr(float), n: int):
    with each(block):
        s: shared(float[n], upto=100)
        with each(thread, s, x) as t:
            s[t] = x[t]
"""


def test_explain_says_what_a_launch_may_add(snap_command):
    code, out, _ = snap_command("explain", write("sized.py", SIZED))
    assert code == 0 and "0 bytes of shared memory, and at most 400 more, as the launch decides" in out


# ---- warnings ----------------------------------------------------------------------------------------------------------------------------

TRAP = """
from __future__ import annotations
from snap import *

@kernel(threads=32)
def k(x: ptr(float), n: int):
    with each(thread, x) as i:
        x[i] = x[i] * (1 / n)
        x[i] += i / 2  # snap: ok SNAP030
"""


def test_check_warns(snap_command):
    """A warning refuses nothing, and a comment on its line allows it."""
    code, out, err = snap_command("check", write("trap.py", TRAP))
    assert (code, err) == (0, "1 file: no errors, 1 warning\n")
    assert out.startswith("warning[SNAP030]: ") and "trap.py:8:24" in out and "`1.0 / n`" in out
    code, out, err = snap_command("check", "--json", "trap.py")
    (entry,) = json.loads(out)
    assert code == 0 and (entry["severity"], entry["code"], entry["range"]["start"]["line"]) == ("warning", "SNAP030", 8)


def test_a_trap_is_told_when_it_is_defined(snap_command):
    from snap import SnapWarning

    with pytest.warns(SnapWarning, match="SNAP030") as told:
        snap_command("run", write("trap.py", TRAP))
    assert [(one.filename, one.lineno) for one in told] == [("trap.py", 8)]


def test_arrivals_stand_before_the_loop_that_follows_them(snap_command):
    text = """
from __future__ import annotations
from snap import *

@kernel(threads=256)
def small(A: ptr(const(bf16), (M, 64)), B: ptr(const(bf16), (64, 64)), C: ptr(float, (M, 64)), M: int):
    with each(block, C, disjoint=C):
        a_slots, b_slots = pipeline(shared(bf16[64, 64], swizzle=128), 3), pipeline(shared(bf16[64, 64], swizzle=128), 3)
        acc: float[32] @ thread[1]
        compute, load = roles(128, 128)
        for m in strided(block, shape=(M / 64,)):
            with stage(a_slots) as a, stage(b_slots) as b:
                with load(a, b):
                    async_copy(a, A, at=(64 * m, 0))
                    async_copy(b, B, at=(0, 0))
                with compute(a, b):
                    wgmma(acc, a, b, zero=True)
            with compute(C), each(thread, C):
                for e in range(32):
                    C[m * 64 + acc_row(e, warpgroup), acc_column(e, warpgroup)] = acc[e]
"""
    _, out, _ = snap_command("explain", write("small.py", text))
    lines = out.splitlines()
    (arrival,) = [k for k, line in enumerate(lines) if "_empty: each warpgroup of threads 0 to 127 arrives" in line]
    assert "for e in range(32)" in lines[arrival + 1]


# ---- terminals ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("cuda", "reverse.py"), ("explain", "reverse.py")])
def test_a_terminal_shows_the_same_text_in_colors(snap_command, monkeypatch, words):
    from snap.cli import show

    write("reverse.py", REVERSE)
    plain = snap_command(*words)[1]
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(show, "wants_color", lambda stream: True)
    code, colored, _ = snap_command(*words)
    assert code == 0 and "\x1b[" in colored
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()]
    assert lines == [line.rstrip() for line in plain.splitlines()]


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_command_line_without_what_it_needs_says_so(monkeypatch, missing):
    """The kernels of the package need neither; what else is missing is told as Python tells it."""
    monkeypatch.delitem(sys.modules, "snap.cli.app", raising=False)
    monkeypatch.setattr(sys, "argv", ["snap"])

    def refused(name, *args):
        if name == "snap.cli.app":
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return real(name, *args)

    import builtins

    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", refused)
    with pytest.raises(SystemExit, match=f"snap's command line needs {missing}: pip install {missing}"):
        main()
    missing = "numpy"
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        main()
