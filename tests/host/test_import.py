"""`import snap` is quick because it imports next to nothing, and NumPy alone is enough to check and run a kernel."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = '''\
from snap import *

@kernel
@requires(grid[1], block[1], thread[32])
def double(x: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            mine[0] = mine[0] * 2
'''

ONLY_NUMPY = '''\
import sys

class Refuse:
    """Stands for an installation without these packages."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("rich", "typer", "click", "cuda", "torch", "cupy", "pytest", "hypothesis", "ml_dtypes"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import snap
assert "numpy" not in sys.modules
sys.path.insert(0, {folder!r})
from program import double
import numpy
x = numpy.arange(64, dtype=numpy.int32)
double[2](x)
double.launch(x, blocks=2, seed=1)
assert (x == 4 * numpy.arange(64)).all()
assert "__global__" in double.cuda()
'''


def test_numpy_alone_is_enough(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", ONLY_NUMPY.format(folder=str(tmp_path))], check=True, timeout=60, env=environment)
