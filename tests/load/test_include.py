"""An included workflow keeps its meaning under its new names, and mistakes in it are told at its own lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import SpecError
from diel.planning.check import CheckedWorkflow, check
from diel.workflow.graph import Edge

RELAX = """diel: 1
name: relax
hyperparameters:
  cutoff: {type: int, default: 30, low: 1, high: 100}
  steps: {type: int, default: 2}
axes:
  strain: {values: [0.9, 1.0, 1.1]}
  turn: {loop: {max: 5, until: "fit.error < hp.cutoff and turn > 1"}}
  seed: {range: "${{ hp.steps }}"}
stages:
  scf:
    over: [strain, turn]
    files: {pot: pot.dat}
    command: echo ${{ strain }} ${{ hp.cutoff }} ${{ files.pot }}
    outputs: {energy: {value: float}}
  fit:
    over: [turn]
    inputs: {energies: {from: scf.energy}, first: {from: scf.energy, at: {strain: 0.9}}}
    command: echo ${{ inputs.energies }}
    outputs: {error: {value: float}}
  use:
    after: [scf]
    command: [echo, "${{ fit.error }}"]
    inputs: {last: {from: fit.error, at: {turn: last}}}
"""


class Folder:
    """A project with a workflow that may be included, in a folder of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "sub").mkdir()
        (path / "sub" / "pot.dat").write_text("a potential\n")
        self.write("sub/relax.yaml", RELAX)

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def check(self, text: str) -> CheckedWorkflow:
        self.write("w.yaml", f"diel: 1\nname: outer\n{text}")
        return check(self.path / "w.yaml", folder=self.path)

    def problems(self, text: str) -> list[str]:
        with pytest.raises(SpecError) as caught:
            self.check(text)
        return [str(one).removeprefix(f"{self.path}/") for one in caught.value.problems]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def edges(checked: CheckedWorkflow) -> set[tuple[str, str, str | None, tuple[str, ...]]]:
    def short(edge: Edge) -> tuple[str, str, str | None, tuple[str, ...]]:
        return edge.upstream, edge.downstream, edge.output, edge.gathered

    return set(map(short, checked.graph.edges))


def test_stages_axes_and_hyperparameters_get_the_name(folder: Folder) -> None:
    found = folder.check("include: {r: sub/relax.yaml}\n")
    assert list(found.workflow.stages) == ["r.scf", "r.fit", "r.use"]
    assert list(found.workflow.axes) == ["r.strain", "r.turn", "r.seed"]
    assert found.hyperparameters.plain() == {"r.cutoff": 30, "r.steps": 2}
    assert found.workflow.stages["r.scf"].over == ("r.strain", "r.turn")
    assert ("r.scf", "r.fit", "energy", ("r.strain",)) in edges(found)
    assert found.counts["r.seed"] == 2
    assert found.workflow.axes["r.turn"].parameters_of("r.turn") == ("turn",)


def test_two_of_one_file_are_apart_and_each_is_bound_in_its_own_way(folder: Folder) -> None:
    found = folder.check("""
hyperparameters: {c: {type: int, default: 20}}
axes: {s: {values: [0.9, 2]}}
include:
  one: {file: sub/relax.yaml, axes: {strain: s}, hyperparameters: {cutoff: hp.c}}
  two:
    file: sub/relax.yaml
    axes: {strain: [0.9, 6, 7, 8]}
    hyperparameters: {cutoff: 40, steps: {default: 7, high: 9}}
stages:
  both: {over: [s], command: [echo, "${{ one.scf.energy }} ${{ s }} ${{ hp.two.cutoff }}"]}
  inner: {over: [two.strain, two.turn], command: [echo, "${{ two.strain }} ${{ strain }} ${{ two.scf.energy }}"]}
""")
    assert found.workflow.stages["one.scf"].over == ("s", "one.turn")
    assert found.counts["two.strain"] == 4
    assert found.counts["two.seed"] == 7
    assert found.hyperparameters.plain() == {"c": 20, "one.steps": 2, "two.cutoff": 40, "two.steps": 7}
    assert "${{ s }} ${{ hp.c }}" in str(found.workflow.stages["one.scf"].command)
    assert ("one.scf", "both", "energy", ("one.turn",)) in edges(found)
    assert ("two.scf", "inner", "energy", ()) in edges(found)


def test_data_is_fed_in_by_changing_a_stage_and_comes_out_by_its_name(folder: Folder) -> None:
    found = folder.check(
        """
include:
  r:
    file: sub/relax.yaml
    stages:
      scf: {inputs: {shape: prepare.shape}, resources: {ranks: 2}, files: {pot: own.dat}}
stages:
  prepare: {command: [echo], outputs: {shape: shape.xyz}}
  report: {inputs: {e: {from: r.fit.error, at: {r.turn: last}}}, command: [echo, "${{ inputs.e }}"]}
"""
        if (folder.path / "own.dat").write_text("x")
        else ""
    )
    assert ("prepare", "r.scf", "shape", ()) in edges(found)
    assert found.workflow.stages["r.scf"].resources.ranks == 2
    assert found.workflow.stages["r.scf"].files == {"pot": "own.dat"}


def test_includes_nest_and_stages_extend_what_is_included(folder: Folder) -> None:
    folder.write(
        "middle.yaml",
        "diel: 1\nname: middle\ntemplates: {code: {retries: 3}}\n"
        "include: {inner: {file: sub/relax.yaml, hyperparameters: {steps: 4}}}\n"
        "stages: {sum: {extends: code, command: [echo, '${{ inner.scf.energy }} ${{ hp.inner.steps }}']}}\n",
    )
    found = folder.check(
        """
include: {m: middle.yaml}
stages:
  again: {extends: m.inner.scf, files: {pot: w.yaml}}
  named: {extends: m.code, command: [echo, "${{ m.inner.use }}"]}
""".replace("m.inner.use", "hp.m.inner.steps")
    )
    assert list(found.workflow.stages) == [
        "m.inner.scf",
        "m.inner.fit",
        "m.inner.use",
        "m.sum",
        "again",
        "named",
    ]
    assert found.hyperparameters.plain() == {"m.inner.cutoff": 30, "m.inner.steps": 4}
    assert ("m.inner.scf", "m.sum", "energy", ("m.inner.strain", "m.inner.turn")) in edges(found)
    assert found.workflow.stages["again"].over == ("m.inner.strain", "m.inner.turn")
    assert found.workflow.stages["named"].retries.limit == 3
    assert found.workflow.stages["m.inner.scf"].files == {"pot": "sub/pot.dat"}


def test_what_an_included_one_includes_is_bound_by_its_name_there(folder: Folder) -> None:
    folder.write(
        "middle.yaml",
        "diel: 1\nname: middle\ninclude: {inner: sub/relax.yaml}\nstages: {end: {command: ['true']}}\n",
    )
    found = folder.check(
        """
include:
  m:
    file: middle.yaml
    axes: {inner.seed: [7]}
    hyperparameters: {inner.cutoff: hp.cutoff, inner.steps: 9}
    stages: {inner.fit: {retries: 2}}
hyperparameters: {cutoff: {type: int, default: 50, low: 10, high: 99}}
"""
    )
    assert found.hyperparameters.plain() == {"cutoff": 50, "m.inner.steps": 9}
    assert found.counts["m.inner.seed"] == 1
    assert found.workflow.stages["m.inner.fit"].retries.limit == 2
    assert "m.inner.cutoff" not in found.workflow.hyperparameters


def test_axes_of_one_parameter_name_are_bound_apart_and_read_as_outputs_of_their_stages(
    folder: Folder,
) -> None:
    folder.write(
        "leaf.yaml",
        """diel: 1
name: leaf
axes: {s: {values: [1, 2]}}
templates: {base: {env: {S: "${{ s }}"}}}
stages:
  a: {extends: base, over: [s], command: "echo ${{ s }}", outputs: {v: {value: int}}}
  all: {inputs: {values: a.s, first: {from: a.v, at: {s: 1}}}, command: "echo ${{ sum(a.s) }}"}
""",
    )
    folder.write("middle.yaml", "diel: 1\nname: middle\ninclude: {l: leaf.yaml, m: leaf.yaml}\n")
    found = folder.check(
        """
axes: {q: {values: [1, 3]}, r: {values: [1, 4]}}
include:
  one: {file: middle.yaml, axes: {l.s: q, m.s: [1, 5]}}
  two: {file: middle.yaml, axes: {l.s: q, m.s: r}}
  three: {file: leaf.yaml, axes: {s: one.m.s}}
stages: {use: {over: [q], command: "echo ${{ one.l.a.q }} ${{ one.m.a.s }}"}}
"""
    )
    names = {"one.l": "q", "one.m": "s", "two.l": "q", "two.m": "r", "three": "s"}
    for stage, name in names.items():
        assert found.workflow.stages[f"{stage}.a"].env == {"S": f"${{{{ {name} }}}}"}
        assert found.workflow.stages[f"{stage}.a"].command == f"echo ${{{{ {name} }}}}"
        assert (f"{stage}.a", f"{stage}.all", name, found.workflow.stages[f"{stage}.a"].over) in edges(found)


MODULE = "import diel\n\n@diel.module(kind='simulation')\ndef shake(strain: float, n: int = {}) -> dict[str, float]:\n    return {{'x': strain}}\n"


def test_modules_are_those_beside_the_included_file_and_take_bound_parameters(folder: Folder) -> None:
    for place, number in ((".", 1), ("sub", 2)):
        (folder.path / place / "modules").mkdir()
        folder.write(f"{place}/modules/tools.py", MODULE.format(number))
    folder.write(
        "sub/one.yaml",
        "diel: 1\nname: one\naxes: {strain: {values: [1.0]}}\n"
        "stages: {shake: {module: tools, over: [strain]}}\n",
    )
    found = folder.check(
        "axes: {s: {values: [1.0, 2.0]}}\ninclude: {one: {file: sub/one.yaml, axes: {strain: s}}}\n"
        "stages: {own: {module: tools, params: {strain: 1.0}}}\n"
    )
    assert found.modules["one.shake"].path == folder.path / "sub/modules/tools.py"
    assert found.modules["own"].path == folder.path / "modules/tools.py"
    assert found.workflow.stages["one.shake"].params == {"strain": "${{ s }}"}


def test_a_shell_of_one_is_not_that_of_the_other(folder: Folder) -> None:
    folder.write(
        "sub/s.yaml",
        "diel: 1\nname: s\nshell: [zsh, -c]\nstages: {a: {command: echo}, b: {command: [echo]}}\n",
    )
    folder.write("sub/t.yaml", "diel: 1\nname: t\nstages: {a: {command: echo}}\n")
    stages = folder.check(
        "shell: sh\ninclude: {s: sub/s.yaml, t: sub/t.yaml}\nstages: {own: {command: echo}}\n"
    ).workflow.stages
    assert stages["s.a"].interpreter == ("zsh", "-c")
    assert stages["t.a"].interpreter[0] == "bash"
    assert stages["own"].interpreter[0] == "/bin/sh"


def test_mistakes_are_told_at_the_lines_and_columns_of_the_included_file(folder: Folder) -> None:
    folder.write(
        "sub/wrong.yaml", RELAX.replace("${{ strain }} ${{ hp.cutoff }}", "${{ hp.cutoff }} ${{ strian }}")
    )
    (problem,) = folder.problems("include: {one: sub/wrong.yaml, two: sub/wrong.yaml}\n")
    line = next(
        n
        for n, text in enumerate((folder.path / "sub/wrong.yaml").read_text().splitlines(), 1)
        if "strian" in text
    )
    assert problem.startswith(f"sub/wrong.yaml:{line}:40: stages.scf.command: no name 'strian' here")


def test_a_file_that_is_missing_inside_is_looked_for_beside_it(folder: Folder) -> None:
    (folder.path / "sub" / "pot.dat").rename(folder.path / "pot.dat")
    (problem,) = folder.problems("include: {r: sub/relax.yaml}\n")
    assert problem.startswith("sub/relax.yaml:13:18: stages.scf.files.pot: no file 'sub/pot.dat'")


def test_many_includes_of_includes_are_refused_soon(folder: Folder) -> None:
    for number in range(30):
        inner = "{a: %s, b: %s}" % ((f"l{number + 1}.yaml",) * 2)
        folder.write(f"l{number}.yaml", f"diel: 1\nname: l\ninclude: {inner}\n")
    folder.write("l30.yaml", "diel: 1\nname: l\nstages: {s: {command: [echo]}}\n")
    problems = folder.problems("include: {l: l0.yaml}\n")
    assert any("more than 1000 workflows are included" in one for one in problems)


def test_what_is_said_of_an_included_file_has_the_names_of_that_file(folder: Folder) -> None:
    folder.write(
        "sub/wrong.yaml", RELAX.replace("hp.cutoff }}", "hp.cutof }}").replace("fit.error }}", "fat.error }}")
    )
    problems = folder.problems("include: {one: sub/wrong.yaml, two: sub/wrong.yaml}\n")
    told = "\n".join(problems)
    assert "run, scf, fit" in told
    assert "one." not in told
