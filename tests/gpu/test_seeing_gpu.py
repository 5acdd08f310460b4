"""What a kernel tells on a GPU: printed lines, assertions that do not hold, lines of the source in the code.  A failure takes its process's context
with it, and `printf` goes past Python, so everything runs in processes of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
PRINTS = """
from __future__ import annotations
import sys
import numpy as np
from snap import *

@device(warp)
def told(v: float @ thread[1]):
    print("the warp's sum is", intrinsic.reduce_add(v))

@kernel(threads=64)
def shown(x: ptr(const(float)), n: int, wide: i64, h: ptr(const(bf16)), d: ptr(const(f64))):
    print("100% of", n, wide, n > 2, f64(n) / 3.0)
    with each(block) as b:
        print("block", b, u8(b), i8(b), h[b], f16(h[b]), u64(wide))
        with each(warp) as w:
            told(x[w])
    with each(thread) as i:
        if i < 6:
            print("x =", x[i], "d =", d[i], float2(x[i], 0.5), i % 2 == 0, "\\u00e9")
            print()

@kernel(threads=96)
def handed_on(x: ptr(const(float)), out: ptr(float), n: int):
    with each(block) as b:
        ring: pipeline(shared(float[32]), 2)
        compute, load = roles(64, 32)
        for k in range(n):
            print("round", k)
            with stage(ring) as s:
                with load(s):
                    with each(thread, s) as t:
                        s[t] = x[32 * k + t]
                    print("loaded", k)
                with compute(out):
                    t: int @ thread[1] = id()
                    with partition(out, p=thread[1], offset=t) as mine:
                        mine[0] += s[t % 32]

x, h = np.linspace(0, 1, 96, dtype=np.float32), np.array([0x3DCD, 0x4049], np.uint16)
d = np.array([0.1, 1 / 3, 1e-300, -0.0, np.inf, 1e15], np.float64)
out = np.zeros(64, np.float32)
if sys.argv[1] == "cpu":
    shown[2](x, 7, 1 << 40, h, d)
    handed_on[1](x, out, 3)
else:
    import torch
    to = lambda a: torch.from_numpy(a).cuda()
    shown[2](to(x), 7, 1 << 40, to(h.view(np.int16)).view(torch.bfloat16), to(d))
    handed_on[1](to(x), to(out), 3)
    torch.cuda.synchronize()
"""
FAILS = """
import sys
import torch
from snap import *
from snap.host.errors import LostGpuError

@device(thread[1])
def positive(v: int) -> int:
    assert v > 0, "v is positive"
    return v

@kernel(threads=32)
def checked(x: ptr(const(int)), out: ptr(int), n: int):
    assert n > 0
    with each(thread, out) as i:
        if i < n:
            out[i] = positive(x[i])

x, out = torch.ones(128, dtype=torch.int32, device="cuda"), torch.zeros(128, dtype=torch.int32, device="cuda")
checked[4](x, out, 128)
assert out.sum() == 128
x[3 * 32 + 5] = -1
try:
    checked[4](x, out, 128)
    torch.cuda.synchronize()
except RuntimeError as error:
    print("torch:", str(error).splitlines()[0])
try:
    checked[4](x, out, 128)
except LostGpuError as error:
    print(error)
"""


def ran(tmp_path: Path, text: str, *args: str, **environment: str) -> subprocess.CompletedProcess:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    paths = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, str(path), *args], capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": paths, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_both_machines_print_the_same_lines(tmp_path):
    cpu, gpu = (ran(tmp_path, PRINTS, where).stdout for where in ("cpu", "gpu"))
    assert sorted(gpu.splitlines()) == sorted(cpu.splitlines()), f"---- CPU machine\n{cpu}\n---- GPU\n{gpu}"


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_an_assertion_says_what_where_and_who(tmp_path, blocking):
    done = ran(tmp_path, FAILS, CUDA_LAUNCH_BLOCKING=blocking)
    told = f"---- out\n{done.stdout}\n---- err\n{done.stderr}"
    assert "an `assert` of `checked` did not hold" in done.stdout, told
    assert "error[assert]: v is positive" in done.stdout and "block 3, thread 5" in done.stdout and "program.py:9:5" in done.stdout, told
    assert "program.py:9" in done.stderr and "[3,0,0]" in done.stderr and "[5,0,0]" in done.stderr and "v is positive" in done.stderr, told
    assert "device-side assert" in done.stdout, told


def test_an_assertion_beside_products_says_it_in_the_exception(tmp_path):
    """Kernels with wgmma make no call: the driver prints nothing, and the next launch says it all."""
    program = (Path(__file__).resolve().parents[1] / "ok" / "hgemm.py").read_text().partition("def check")[0]
    loop = "            for k in range(K / 64):\n"
    assert loop in program
    text = program.replace(loop, loop + '                assert k < 2, "too deep"\n') + textwrap.dedent("""
        import torch
        from snap.host.errors import LostGpuError
        a, b, c = (torch.zeros(shape, dtype=torch.bfloat16, device="cuda") for shape in ((128, 256), (256, 256), (128, 256)))
        short = a[:, :128].contiguous(), b[:, :128].contiguous()
        hgemm[1](*short, c, 128, 256, 128)
        torch.cuda.synchronize()
        try:
            hgemm[1](a, b, c, 128, 256, 256)
            torch.cuda.synchronize()
        except RuntimeError as error:
            print("torch:", str(error).splitlines()[0])
        try:
            hgemm[1](*short, c, 128, 256, 128)
        except LostGpuError as error:
            print(error)
    """)
    done = ran(tmp_path, text)
    assert "error[assert]: too deep" in done.stdout and "block 0, thread" in done.stdout, f"{done.stdout}\n{done.stderr}"


def test_lines_are_shown_at_the_end_of_the_process(tmp_path):
    waits = "    torch.cuda.synchronize()\n"
    assert waits in PRINTS
    cpu, gpu = ran(tmp_path, PRINTS, "cpu").stdout, ran(tmp_path, PRINTS.replace(waits, ""), "gpu").stdout
    assert sorted(gpu.splitlines()) == sorted(cpu.splitlines()), f"---- GPU\n{gpu}"


def test_launches_without_line_information(tmp_path):
    cpu, gpu = (ran(tmp_path, PRINTS, where, SNAP_LINEINFO="0").stdout for where in ("cpu", "gpu"))
    assert sorted(gpu.splitlines()) == sorted(cpu.splitlines())
