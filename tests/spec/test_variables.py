"""What a command's text reads of the shell in which diel is called."""

from __future__ import annotations

import pytest

from diel.base.carried import kept_variables
from diel.workflow.models import Workflow
from diel.workflow.models.variables import apply_shell, read_variables, shell_of

READ = {
    "echo ${STEPS:-10} $1 $@ $? $$ $(date)": {"STEPS"},
    "X=1; echo $X $Y": {"Y"},
    "X=${X:-3}; echo $X": {"X"},
    "A=$B; B=$A": {"B"},
    "export Q=2 && echo $Q": set(),
    "for i in a b; do echo $i $j; done": {"j"},
    "while read -r line; do echo $line; done": {"line"},
    "awk '{print $NF}' file": set(),
    "echo \"it's $A\" '$B' \\$C": {"A"},
    "echo $((N * 2 + $M)) ${#Z}": {"N", "M", "Z"},
    "echo 1 # as $FOO says": set(),
    "cat <<E\n$HERE\nE": {"HERE"},
    'printenv FOO; python -c \'import os; os.environ["BAR"], os.getenv("BAZ")\'': {"FOO", "BAR", "BAZ"},
    "echo $DIEL_TASK_DIR $PATH $HOME $TZ $SLURM_JOB_ID $OMP_NUM_THREADS $RANDOM $PWD": set(),
}

SEEN = [
    "for STEPS in $STEPS 9; do true; done",
    "if true; then STEPS=3; fi; echo $STEPS",
    "false && STEPS=3; echo $STEPS",
    "false && STEPS=3 || echo $STEPS",
    "true || STEPS=3\necho $STEPS",
    "false && # not yet\n\nSTEPS=3\necho $STEPS",
    "(STEPS=3); echo $STEPS",
    "x=$(STEPS=3); echo $STEPS",
    "false && x=$(a; b) && STEPS=3; echo $STEPS",
    "STEPS=3 & echo $STEPS",
    "STEPS=3 true; echo $STEPS",
    "f() { STEPS=3; }; echo $STEPS",
    "function f { STEPS=3; }; echo $STEPS",
    "{ STEPS=3; } | cat; echo $STEPS",
    "case a in b) STEPS=3;; esac; echo $STEPS",
    "# STEPS=3\necho $STEPS",
    "true --x STEPS=3; echo $STEPS",
    "echo 3 | read STEPS; echo $STEPS",
    "read -p STEPS x; echo $STEPS",
    "cat <<E\nit's\nSTEPS=3\nE\necho $STEPS",
    "cat <<'E'\nSTEPS=3 $NONE\nE\necho $STEPS",
    "while read STEPS; do true; done < /dev/null; echo $STEPS",
    "(( STEPS > 3 ))",
    "if (( (STEPS + 1) > 3 )); then true; fi",
    "[[ STEPS -gt 3 ]]",
    "[[ -n x && 3 -lt STEPS ]]",
    "let y=STEPS+1",
    "y=1; echo ${y:STEPS}",
    "y=1; echo ${y[STEPS]}",
    "STEPS+=3",
    "export STEPS; ./program",
    "printenv HOME STEPS",
    "timeout 5 bash -euc 'echo $STEPS'",
    "awk 'BEGIN {print ENVIRON[\"STEPS\"]}'",
    "perl -e 'print $ENV{STEPS}'",
    "jq -n env.STEPS",
    "python3 -c 'import os; os.environ.pop(\"STEPS\")'",
]
OWN = [
    "STEPS=3\necho $STEPS",
    "STEPS=3; { echo $STEPS; }; f() { echo $STEPS; }; (echo $STEPS) | cat",
    "STEPS=$(cat x; cat y) && echo $STEPS",
    "STEPS=(1 2); echo ${STEPS[0]}",
    "for STEPS in 1 2; do echo $STEPS; done; echo $STEPS",
    "read -r STEPS x < file; echo $STEPS",
    "export STEPS=3; bash -c 'echo $STEPS'",
    "STEPS=3 sh -c 'echo $STEPS'",
    'python3 -c \'import os; os.environ["STEPS"] = "3"\'',
    "cat <<'E'\n$STEPS\nE",
    "bash -c 'STEPS=3; echo $STEPS'",
]


def workflow(**stage: object) -> Workflow:
    return Workflow.model_validate({"diel": 1, "name": "w", "stages": {"s": stage}})


@pytest.mark.parametrize(("text", "names"), READ.items())
def test_names_in_a_text(text: str, names: set[str]) -> None:
    flow = workflow(command=text)
    assert set(read_variables(flow, flow.stages["s"])) == names


@pytest.mark.parametrize("text", SEEN)
def test_only_what_surely_sets_a_variable_in_the_same_shell_makes_it_the_texts_own(text: str) -> None:
    flow = workflow(command=text)
    assert set(read_variables(flow, flow.stages["s"])) == {"STEPS"}


@pytest.mark.parametrize("text", OWN)
def test_a_variable_that_a_text_has_set_is_none_of_the_shells(text: str) -> None:
    flow = workflow(command=text)
    assert not read_variables(flow, flow.stages["s"])


@pytest.mark.parametrize(
    "name", ["TEMP", "FLUX", "MPI_STEPS", "MODULE_N", "CUDA_N", "EPOCHS", "LINES", "COBALT_X"]
)
def test_a_users_quantity_is_no_variable_of_a_machine_or_a_shell(name: str) -> None:
    flow = workflow(command=f"echo ${name}")
    assert shell_of(flow, {name: "2"}) == {name: "2"}
    assert name not in kept_variables({name: "2"})


def test_a_setting_of_a_machine_is_read_by_its_name_and_a_place_is_not() -> None:
    flow = workflow(command="echo $UCX_TLS $SLURM_JOB_ID $OMPI_COMM_WORLD_RANK")
    environ = {"UCX_TLS": "tcp", "SLURM_JOB_ID": "7", "OMPI_COMM_WORLD_RANK": "1"}
    assert shell_of(flow, environ) == {"UCX_TLS": "tcp"}
    assert kept_variables(environ).keys() >= environ.keys()


def test_names_in_words_are_those_that_a_shell_would_read() -> None:
    flow = workflow(command=["sh", "-ec", "echo $A", "$B"])
    assert set(read_variables(flow, flow.stages["s"])) == {"A"}


def test_what_is_declared_needs_no_shell_and_what_is_read_becomes_declared() -> None:
    flow = workflow(command="echo $A $B $C", env={"A": 1})
    shell = shell_of(flow, {"A": "2", "B": "3", "D": "4"})
    assert shell == {"B": "3"}
    apply_shell(flow, shell)
    assert flow.stages["s"].env == {"A": 1, "B": "3"}
