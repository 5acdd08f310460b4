"""Generates programs and puts them to the test: `python -m fuzz` in tests/, or `make fuzz`.

    --count 20000          how many programs (2,000 unless --seconds says how long)
    --seconds 600          how long
    --seed 7               where to begin; it is drawn, and printed, where none is given
    --families boxes,grid  which
    --only boxes:123       one program: its text, and what becomes of it
    --jobs 16              processes
    --host                 compiles the CUDA text for this machine as well, and runs that
    --gpu                  compares this machine's GPU with the reference, and nothing else; a sample under compute-sanitizer
    --prepare FILE         keeps what launches need of the programs, where there is no GPU, behind what FILE has
    --gpu --prepared FILE  launches those, and compares: all of them, or as far as --count or --seconds go; some files, if you like
    --same FILE            says whether this commit generates the same CUDA of prepared programs: of all, or of --count of each block
    --same FILE --keep TO  and keeps those of which it does, as if they had been prepared at this commit
    --fake-gpu             the same, with the CPU machine in the GPU's place
    --out results.json     what was found, as JSON

For --gpu and --prepare, families whose programs take long to make (parts, flights, relays) are drawn in one round of four.
Failing programs are made smaller and written to build/fuzz/.  The exit status is 1 where there are any.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

from fuzz import campaign
from fuzz.case import FAMILIES, generate
from fuzz.oracles import LIMIT, SEEDS, judge


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="schedules for each program")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--host", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--fake-gpu", action="store_true")
    parser.add_argument("--prepare", type=Path, metavar="FILE")
    parser.add_argument("--prepared", type=Path, metavar="FILE", nargs="+")
    parser.add_argument("--same", type=Path, metavar="FILE", nargs="+")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--sanitize", type=int, default=200, help="how many programs compute-sanitizer sees, where there is a GPU")
    parser.add_argument("--sanitize-seconds", type=float, default=float("inf"), help="how long it begins to look at some")
    parser.add_argument("--tools", default="memcheck,racecheck,synccheck", help="its tools")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--most", type=int, default=20, help="how many failing programs are made smaller")
    parser.add_argument("--out", type=Path)
    found = parser.parse_args(arguments)
    found.families, found.tools = tuple(found.families.split(",")), tuple(found.tools.split(","))
    unknown = set(found.families) - set(FAMILIES)
    if unknown:
        parser.error(f"no family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    if found.only and not is_name(found.only):
        parser.error(f"--only {found.only}: a program is FAMILY:SEED, such as boxes:123; families are {', '.join(FAMILIES)}")
    if found.prepared and not (found.gpu or found.fake_gpu):
        parser.error("--prepared says what --gpu, or --fake-gpu, launches")
    if found.count is None and found.seconds is None and not (found.prepared or found.same):
        found.count = 2000
    if found.seed is None:
        found.seed = random.SystemRandom().randrange(1, 1_000_000)
    return found


def is_name(text: str) -> bool:
    """FAMILY:SEED."""
    family, _, seed = text.partition(":")
    return family in FAMILIES and seed.isascii() and seed.isdigit()


def main(arguments: list[str] | None = None) -> int:
    o = options(arguments)
    os.environ.setdefault("SNAP_VERIFY", "0" if o.gpu or o.prepare or o.same else "1")  # whether the IR is looked at after every pass
    if o.only:
        return one(o.only, o.seeds)
    first, files = o.seed * 1_000_000, " ".join(map(str, o.prepared or o.same or []))
    print(f"{files or f'seed {o.seed}'}: {', '.join(o.families)}{'' if files else f' from {first} on'}, {o.jobs} processes", flush=True)
    more: dict[str, object] = {"prepared": files} if files else {"seed": o.seed}
    if o.gpu or o.fake_gpu:
        from fuzz import gpu

        tally, found = gpu.campaign(o, first)
        more.update(found)
    elif o.same:
        from fuzz import prepared

        tally = prepared.same(o)
    elif o.prepare:
        from fuzz import prepared

        tally = prepared.prepare(o, first)
    else:
        tally = campaign.run(o.families, first, o.count, o.seconds, o.jobs, o.seeds, host=o.host)
    print(tally.report(), flush=True)
    if o.out:
        campaign.write_json(o.out, tally, **more)
    for outcome in tally.failures[: o.most]:
        smaller = None
        if not o.no_shrink and not files and not outcome.kind.startswith(("gpu", "host", "the process", "no end")):  # shrinking does not repeat these
            from fuzz.shrink import shrunk

            smaller = shrunk(outcome)
        print(f"{outcome.case.name}: {outcome.kind}: {campaign.save(outcome, smaller)}", flush=True)
    limit = f"--count {o.count}" if o.count is not None else f"--seconds {o.seconds or 0:g}"
    which = f"--gpu --prepared {files}" if o.prepared else f"--same {files}" if o.same else f"{'--gpu ' * o.gpu}--seed {o.seed} {limit}"
    print(f"again, in tests/: python -m fuzz {which} --families {','.join(o.families)}; one of them: python -m fuzz --only FAMILY:SEED")
    failed, kept = len(tally.failures), min(len(tally.failures), o.most)
    print(f"{tally.done} programs: " + (f"{failed} failed, {kept} of them are in {campaign.FOUND}" if failed else "none failed"))
    return 1 if tally.failures else 0


def one(name: str, seeds: int) -> int:
    family, seed = name.split(":")
    case = generate(family, int(seed))
    print(case.source)
    outcome = judge(case, seeds=max(seeds, 8), limit=10 * LIMIT)
    print(f"arguments: {', '.join(case.arguments)}; blocks: {case.blocks}\n{outcome.status}: {outcome.kind}\n{outcome.detail}")
    return 1 if outcome.status == "failed" else 0


if __name__ == "__main__":
    sys.exit(main())
