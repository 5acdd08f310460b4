"""Role pipelines on GPUs before sm_90: mbarriers without what came with clusters and TMA."""

from __future__ import annotations

import pytest
from corpus import ROOT, Program

KERNELS = {name: Program(ROOT / "tests" / "ok" / f"{file}.py").execute()[name] for file, name in (("role_copies", "gemm"), ("role_copies", "around"), ("boxes", "relay"))}
NEW = ("try_wait", "fence.mbarrier_init", "fence.proxy", "cluster", "expect_tx", "bulk")  # PTX that needs sm_90


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_for_gpus_before_sm_90(name, arch):
    kernel = KERNELS[name]
    assert kernel.cubin(arch).startswith(b"\x7fELF")
    code = [line for line in kernel.ptx(arch).splitlines() if not line.lstrip().startswith("//")]
    assert "mbarrier.test_wait.parity.shared::cta.b64" in "\n".join(code)
    assert not [line for line in code if any(word in line for word in NEW)]


@pytest.mark.parametrize("name", KERNELS)
def test_waits_are_suspended_on_sm_90(name):
    code = KERNELS[name].ptx("sm_90a")
    assert "mbarrier.try_wait.parity.shared::cta.b64" in code and "test_wait" not in code


def test_copies_arrive_in_every_thread_that_copies():
    text = KERNELS["gemm"].cuda()
    assert "snap_barrier_init(At_Bt_full, 4, 64)" in text and "snap_copies_arrive(&At_Bt_full[" in text
    assert "wait_group" not in text and "commit_group" not in text


def test_tma_still_needs_sm_90():
    kernel = Program(ROOT / "tests" / "ok" / "boxes.py").execute()["scaled"]
    assert "fence.mbarrier_init" in kernel.cuda()
    with pytest.raises(ValueError, match="needs sm_90 or later"):
        kernel.ptx("sm_80")
