"""What tasks ask for is checked at each known point before the run, however many there are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from diel.base.errors import SpecError
from diel.cli.commands.plan import lines_of
from diel.planning.check import check
from diel.planning.plan import Plan, make_plan
from diel.site.site import Pool, Site

MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime, used.ru_maxrss)
"""
"""Runs a command and prints what it used. A process begins with the memory of its parent: so not in this one."""

SITE = Site(
    name="two",
    scheduler="local",
    launcher=("mpiexec", "-n", "{ranks}"),
    pools={
        "thin": Pool.model_validate({"nodes": 4, "cores": 32, "memory": "64GiB"}),
        "fat": Pool.model_validate({"nodes": 1, "cores": 8, "memory": "1TiB"}),
    },
)


def planned(folder: Path, axes: str, resources: str, *more: str) -> Plan:
    over = ", ".join(line.partition(":")[0].strip() for line in axes.split(";"))
    lines = ["diel: 1", "name: w", "hyperparameters: {k: {type: int, default: 2}}", "axes:"]
    lines += [f"  {line.strip()}" for line in axes.split(";")]
    lines += [
        "stages:",
        "  s:",
        f"    over: [{over}]",
        "    command: [echo]",
        f"    resources: {{{resources}}}",
    ]
    text = "\n".join([*lines, *(f"    {line}" for line in more)]) + "\n"
    return make_plan(check(folder / "w.yaml", text=text), SITE)


def refused(folder: Path, axes: str, resources: str, *more: str) -> str:
    with pytest.raises(SpecError) as error:
        planned(folder, axes, resources, *more)
    (problem,) = error.value.problems
    return f"{problem.line}:{problem.column} {problem.message}; {problem.hint}"


@pytest.mark.parametrize(
    ("axes", "resources", "expected"),
    [
        ("n: {values: [1, 40]}", 'ranks: "${{ n }}"', "with n=40: fits no pool of site 'two'; pool 'thin': asks for 40 cores"),
        ("n: {range: 1000}; m: {range: 1000}", 'memory: "${{ 1GiB * (n + 1) + 1MiB * m }}", cores_per_rank: 9',
         "fits no pool"),
        ("n: {range: 20000}", 'ranks: "${{ 1 if n != 17777 else 33 }}"', "with n=17777: fits no pool"),
        ("n: {sample: {method: lhs, points: 50, parameters: {x: {low: 0, high: 1}}}}", 'memory: "${{ 2TiB * x }}"',
         "fits no pool of site 'two'"),
        ("n: {range: 1000000}", 'memory: "${{ 1MiB * n }}"', "with n=0: expected more than zero"),
        ("n: {range: 3000}", 'memory: "${{ 1MiB * (1 if n != 1500 else float(\'nan\')) }}"',
         "with n=1500: the size or duration is nan"),
        ("n: {range: 100000}", 'ranks: "${{ 32 / (n - 5) }}"', "with n=0: expected a whole number, found -6.4"),
        ("n: {range: 20000}", 'ranks: "${{ 1 + 0 // (n - 17000) }}"', "division by zero"),
        ("n: {range: 3000}; m: {range: 3000}", 'ranks: "${{ 1 + n // 2000 }}", gpus_per_rank: "${{ m // 2999 }}"',
         "fits no pool"),
        ("n: {range: 5}; m: {range: 5}", 'ranks: "${{ 1 if task.index < 24 else 99 }}"', "with task.index=24: fits no pool"),
        ("n: {range: 100}; m: {range: 100}", 'ranks: "${{ 1 if task.index != 9998 else 99 }}"',
         "with task.index=9998: fits no pool"),
        ("p: {zip: {n: [1, 2], m: [16, 17]}}", 'ranks: "${{ p.n * m }}"', "with m=17, p.n=2: fits no pool"),
        ("n: {values: [thin, fat, nap]}", 'pool: "${{ n }}"', "with n=nap: site 'two' has no pool 'nap'"),
        ("n: {values: [1GiB, 2TiB]}", 'memory: "${{ n }}"', "with n=2TiB: fits no pool"),
    ],
)  # fmt: skip
def test_a_wrong_point_is_told_with_its_values(
    tmp_path: Path, axes: str, resources: str, expected: str
) -> None:
    said = refused(tmp_path, axes, resources)
    assert expected in said


def test_points_that_when_leaves_out_are_not_checked(tmp_path: Path) -> None:
    axes = "n: {range: [1, 100]}; m: {range: [1, 100]}"
    plan = planned(tmp_path, axes, 'ranks: "${{ n * m }}"', 'when: "n * m <= 32"')
    assert plan.stages["s"].demand is not None
    assert plan.stages["s"].demand.spans["ranks"] == (1, 32)
    assert "with m=33, n=1" in refused(tmp_path, axes, 'ranks: "${{ n * m }}"', 'when: "n * m <= 33"')


def test_each_task_goes_to_the_first_pool_that_it_fits(tmp_path: Path) -> None:
    plan = planned(tmp_path, "n: {values: [1, 100]}", 'memory: "${{ 1GiB * n }}"')
    assert {shape.pool for shape in plan.shapes} == {"thin", "fat"}


def test_core_hours_are_the_sum_over_the_points(tmp_path: Path) -> None:
    plan = planned(tmp_path, "n: {values: [1, 2, 4]}", 'ranks: "${{ n }}", walltime: "${{ 1h * n }}"')
    assert plan.core_hours == 1 + 4 + 16
    assert plan.stages["s"].seconds == 4 * 3600


def test_what_only_the_run_shows_is_left_to_it_and_the_rest_is_checked(tmp_path: Path) -> None:
    text = """
        diel: 1
        name: w
        axes: {made: {from: make.list}, n: {values: [1, 2]}}
        stages:
          make: {command: [echo], outputs: {list: {value: list}}}
          s:
            over: [made, n]
            command: [echo]
            resources: {ranks: "${{ made }}", memory: "${{ 1TiB * n }}"}
    """
    lines = [line[8:] for line in text.splitlines()]
    with pytest.raises(SpecError, match="with n=2: fits no pool"):
        make_plan(check(tmp_path / "w.yaml", text="\n".join(lines)), SITE)
    good = "\n".join(lines).replace("1TiB", "1GiB")
    demand = make_plan(check(tmp_path / "w.yaml", text=good), SITE).stages["s"].demand
    assert demand is not None
    assert (demand.partial, demand.widest, demand.words("ranks")) == (True, None, "ranks …")


LATER = """
diel: 1
name: w
axes: {{n: {{values: [1, 2, {most}]}}}}
stages:
  make: {{command: [echo], outputs: {{mesh: mesh.bin}}}}
  s:
    over: [n]
    command: [echo]
    inputs: {{mesh: make.mesh}}
    resources: {{ranks: "${{{{ {ranks} }}}}", memory: "${{{{ {memory} }}}}"}}
    timeout: "${{{{ 2h / n }}}}"
"""


def test_what_is_known_is_checked_and_shown_beside_what_only_the_run_shows(tmp_path: Path) -> None:
    def plan(**said: object) -> Plan:
        return make_plan(check(tmp_path / "w.yaml", text=LATER.format(**said)), SITE)

    sized = {"memory": "256MiB * ceil(size(inputs.mesh) / 1MB)"}
    with pytest.raises(SpecError, match="resources.ranks: with n=64: fits no pool"):
        plan(most=64, ranks="n", **sized)
    told = "\n".join(lines_of(plan(most=4, ranks="n", **sized)))
    assert re.search(r"ranks 1–4, memory …, cores 1–4 +2h00m +6\n", told)
    assert re.search(r"launcher +s: \S*mpiexec -n 1–4$", told)
    srun = SITE.model_copy(update={"launcher": ("srun", "--ntasks={ranks}")})
    text = LATER.format(most=16, ranks="n", **sized)
    assert list(lines_of(make_plan(check(tmp_path / "w.yaml", text=text), srun)))[-1].endswith(
        "srun --ntasks=1–16"
    )
    told = "\n".join(lines_of(plan(most=4, ranks="ceil(size(inputs.mesh) / 1MB)", memory="1GiB * n")))
    assert "ranks …, memory 1.0–4.0 GiB, cores …  2h00m" in told
    assert re.search(r"launcher +s: \S*mpiexec …$", told)


@pytest.mark.parametrize(
    ("axes", "over", "resources"),
    [
        ("n: {range: 1000000}", "n", 'ranks: "${{ 1 + n % 2 }}", memory: "${{ 64MiB + 1KiB * n }}"'),
        ("n: {range: 1000}\n  m: {range: 1000}", "n, m", 'ranks: "${{ 1 + n % 2 }}", memory: "${{ 64MiB + 1KiB * n * m }}"'),
    ],
)  # fmt: skip
def test_a_million_tasks_are_checked_in_a_moment(
    tmp_path: Path, axes: str, over: str, resources: str
) -> None:
    text = f"diel: 1\nname: w\naxes:\n  {axes}\nstages:\n  s: {{over: [{over}], command: [echo], resources: {{{resources}}}}}\n"
    (tmp_path / "w.yaml").write_text(text)
    (tmp_path / "schedulers").mkdir()
    (tmp_path / "schedulers" / "two.yaml").write_text(
        "name: two\nscheduler: local\npools: {local: {cores: 2, memory: 64GiB}}\n"
    )
    words = [
        sys.executable,
        "-c",
        MEASURED,
        sys.executable,
        "-m",
        "diel",
        "validate",
        "w.yaml",
        "--site",
        "two",
    ]
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
    *_, said, used = done.stdout.splitlines()
    seconds, kibibytes = map(float, used.split())
    assert "1,000,000 tasks" in said
    assert seconds < 4  # about one second where nothing else runs
    assert kibibytes < 150 * 1024
