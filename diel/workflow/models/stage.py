"""A stage: one module or command, run over named axes; and its demand.

A demand is what a task asks for where expressions say it, in `resources`, `timeout` and `retries`. The model
then holds what is the same for all tasks: which keys are given, and those without expressions. In place of
the others stands the least that is valid.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)

from diel.base.states import FailureClass
from diel.base.values import format_duration
from diel.workflow.models.data import NO_FORM, Input, Output, Rendering, rendering_flaws
from diel.workflow.models.environment import named, variable_names
from diel.workflow.models.model import (
    Duration,
    Items,
    Json,
    Later,
    Limit,
    Name,
    SpecModel,
    Text,
    Unique,
    Violation,
    Violations,
    optional,
    quote,
    refuse,
)
from diel.workflow.models.policy import MostFailures, Policies, Resources, Rule, default_rule, policy_flaws
from diel.workflow.models.service import Service, Surrogate, service_flaws

Place = tuple[str, ...]
"""A key of a stage that an expression may stand at: `("resources", "ranks")`."""
PLACES = ("resources", "timeout", "retries", "environment")
"""The keys of a stage that say what its tasks ask for."""
_LEAST: dict[Place, Any] = {
    **{("resources", name): 1 for name in ("nodes", "ranks", "ranks_per_node", "cores_per_rank")},
    ("resources", "gpus_per_rank"): 0,
    ("resources", "memory"): "1B",
    ("resources", "walltime"): "8784h",
    ("timeout",): "8784h",
    ("retries",): 0,
    ("retries", "limit"): 0,
    ("retries", "backoff"): "0s",
}
"""Values in place of expressions; a name is left out. (A walltime is compared with `grace`.)"""
TOGETHER = {"nodes", "ranks", "ranks_per_node"}
"""Keys that must agree with each other: one expression leaves all three to the tasks."""


def demand_in(stage: Any, keys: Mapping[str, Collection[str]]) -> dict[Place, str]:
    """Return the texts with expressions, by key. `keys` are those of a stage, each with those below it."""
    demand: dict[Place, str] = {}
    for place in PLACES:
        value = stage.get(place) if isinstance(stage, dict) and place in keys else None
        if isinstance(value, str) and place != "resources":
            demand[(place,)] = value
        elif isinstance(value, dict):
            demand |= {(place, name): text for name, text in value.items() if name in keys[place]}
    return {key: text for key, text in demand.items() if isinstance(text, str) and "${{" in text}


def without_demand(stage: Mapping[str, Any], demand: Collection[Place]) -> dict[str, Any]:
    """Return a stage as a file writes it, with the least in place of its expressions."""
    static = with_values(stage, {key: _LEAST.get(key) for key in demand})
    resources = static.get("resources")
    if isinstance(resources, dict) and any(key[-1] in TOGETHER for key in demand):
        resources |= {name: 1 for name in TOGETHER if isinstance(resources.get(name), int)}
    return static


def with_values(written: Mapping[str, Any], values: Mapping[Place, Any]) -> dict[str, Any]:
    """Return a stage as a file writes it, with values for its demand; null leaves a key out."""
    filled = {place: {**value} if isinstance(value, dict) else value for place, value in written.items()}
    for key, value in values.items():
        part = filled if len(key) == 1 else filled[str(key[0])]
        if value is None:
            del part[key[-1]]
        else:
            part[key[-1]] = value
    return filled


SHELLS: dict[str, tuple[str, ...]] = {
    "bash": ("bash", "-e", "-o", "pipefail", "-c"),
    "sh": ("/bin/sh", "-e", "-c"),
}
"""The words before a text, by the names that `shell` knows. With `-e` a failed line ends the task,
with `pipefail` so does a program before a pipe."""

_POSIX = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "yash", "zsh"})
"""Shells that read quotes as POSIX says, as diel writes values in a text."""


def _shell(value: Any) -> Any:
    expected = "expected bash, sh or a list of words"
    hint = "for instance [zsh, -e, -o, pipefail, -c]; the command's text becomes the last word"
    if isinstance(value, str) and value not in SHELLS:
        text = value.strip()
        near = f"write [{text}, -e, -c]" if text in _POSIX else f"write command: {quote(text)}"
        raise refuse(f"{expected}, found {quote(value)}", near)
    if isinstance(value, list | tuple):
        if not value or not all(isinstance(word, str) and word for word in value):
            raise refuse(f"{expected}, found {'an empty entry' if value else 'an empty one'}", hint)
        if any("${{" in word for word in value):
            raise refuse("a shell cannot have expressions", "write its words as they are")
        if reads_quotes(tuple(value)) and not re.fullmatch("-(?!-).*c", value[-1], re.DOTALL):
            raise refuse(f"the last word is not -c: {value[-1]} would take the text as a file's name", hint)
    elif value is not None and not isinstance(value, str):
        raise refuse(f"{expected}, found {quote(value)}", hint)
    return value


Shell = Annotated[Literal["bash", "sh"] | Items[Text] | None, BeforeValidator(_shell)]
"""The runners of texts: a name, or the words before the text."""


def reads_quotes(words: tuple[str, ...]) -> bool:
    """Return whether these words start a shell that lets values be quoted."""
    return shell_name(words) in _POSIX


def shell_name(words: tuple[str, ...]) -> str:
    """Return the program that reads a text behind these words, without a leading `env` or `busybox`."""
    names = [os.path.basename(word) for word in words]
    if names[0] == "env":
        names = [name for name, word in zip(names, words, strict=True) if word[0] != "-" and "=" not in word]
    return names[1] if names[0] in ("env", "busybox") and names[1:] else names[0]


WORD = 131_071
"""Bytes of the longest word that Linux passes to a program (MAX_ARG_STRLEN, with the ending byte)."""
MANY = 100
"""The most flaws of one list that are shown."""
_TOO_LONG = (
    f"longer than the {WORD:,} bytes that Linux takes in one word",
    "write it into a script or a file under `files`, and pass that",
)

Kind = Literal["simulation", "training", "inference", "analysis"]


class Retries(SpecModel):
    """How often to try again, and how long to wait before."""

    limit: int = optional("Attempts after the first.", 0, ge=0, le=1000)
    backoff: Duration = optional(
        "Wait before the first retry; doubles with each, up to 5 minutes.", 1.0, ge=0
    )


def _count_to_retries(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | dict | Retries):
        hint = "write 2, or {limit: 2, backoff: 10s}"
        raise refuse(f"expected a number of retries, found {quote(value)}", hint)
    return {"limit": value} if isinstance(value, int) else value


def _words(command: Any) -> Any:
    if isinstance(command, dict):
        raise refuse("expected a list of words, or a text for the shell; found a mapping")
    if isinstance(command, str):
        if not command.strip():
            raise refuse("an empty command", "write a list of words, or a text for the shell")
        if _is_too_long(command):
            raise refuse(*_TOO_LONG)
    if isinstance(command, list | tuple):
        if not command:
            raise refuse("an empty command", "the first word is the program")
        flaws = list(islice(_word_flaws(command), MANY))
        if flaws:
            raise Violations(*flaws)
    return command


def _word_flaws(command: Sequence[Any]) -> Iterator[Violation]:
    if command[0] == "":
        yield Violation("the program's name is empty", "the first word is the program", (0,))
    for place, word in enumerate(command):
        if isinstance(word, list | tuple | dict):
            hint = "put it in quotes to pass it as it is"
            yield Violation(f"expected a word, found {quote(word)}", hint, (place,))
        elif isinstance(word, str) and "\0" in word:
            yield Violation("a word cannot hold a NUL character", "", (place,))
        elif isinstance(word, str) and _is_too_long(word):
            yield Violation(*_TOO_LONG, (place,))


def _is_too_long(word: str) -> bool:
    most = WORD if word.isascii() else WORD // 4
    return len(word) > most and len(word.encode("utf-8", "surrogateescape")) > WORD


class Stage(SpecModel):
    """A node of the graph. Its tasks are the product of its axes' points."""

    description: str = optional("What it does, for readers.", "")
    kind: Kind | None = optional("The module's kind if absent.")
    module: str | None = optional(
        "Python function: `simulation.ising` or `package.module:function`.", min_length=1
    )
    command: Annotated[Text | Items[Json] | None, BeforeValidator(_words)] = optional(
        "Any program: a list of words (no shell), or a text for the shell."
    )
    shell: Shell = optional("What runs a command that is a text; the workflow's if absent.")
    over: Unique[str] = optional("Axes that the stage runs over.", ())
    inputs: dict[Name, Input] = Field(default_factory=dict, description="Data from other stages.")
    after: Unique[str] = optional("Stages to wait for without taking data.", ())
    beside: Unique[str] = optional("Stages whose tasks run at the same time as this stage's.", ())
    service: Later[Service] | None = optional(
        "Its tasks stay up and answer requests while others run: true, or settings."
    )
    services: Unique[str] = optional("Services that its tasks ask.", ())
    surrogate: Later[Surrogate] | None = optional(
        "A service that each task asks first; the task runs only if the answer is too unsure."
    )
    params: dict[Name, Json] = Field(default_factory=dict, description="Parameters of the module.")
    files: dict[Name, Annotated[Text, Field(min_length=1)] | Later[Rendering]] = Field(
        default_factory=dict, description="Files to read, relative to the workflow file, or to fill in."
    )
    outputs: dict[Name, Output] = Field(default_factory=dict, description="What a command makes.")
    publishes: dict[str, Name] = Field(
        default_factory=dict,
        description="Hyperparameters that get the values of its outputs, for the stages after it.",
    )
    resources: Later[Resources] = optional("What one task asks for.", Resources.model_construct())
    environment: Annotated[str | None, BeforeValidator(named)] = optional(
        "Environment in which its tasks run, of the workflow or the site."
    )
    env: Annotated[dict[str, Text | int | float], AfterValidator(variable_names)] = Field(
        default_factory=dict, description="Environment variables of the stage's tasks."
    )
    retries: Annotated[Later[Retries], BeforeValidator(_count_to_retries)] = optional(
        "Attempts after the first: a number, or limit and backoff.", Retries.model_construct()
    )
    on: Later[Policies] = optional(
        "What happens after each class of failure: retries, more memory.", Policies.model_construct()
    )
    max_failures: MostFailures = optional(
        "Failed tasks (5, or 10% of them) after which no more of the stage is begun, and the run fails."
    )
    hold: bool = optional(
        "Whether a stage whose first tasks all fail the same way waits for an answer.", True
    )
    timeout: Limit | None = optional("Longest run time of an attempt; it is killed after it.")
    checkpoint: bool = optional("Whether a task that is interrupted continues from what it saved.", False)
    grace: Limit | None = optional(
        "How long before the end such a task is asked to save; the site's if absent."
    )
    isolation: Literal["process"] | None = optional(
        "`process` runs each task of a Python module in a process of its own."
    )
    when: str | bool | None = optional("Expression: the task is skipped if it is false.")
    extends: str | None = optional("A stage or template whose keys hold where it has none.", min_length=1)
    _demand: dict[Place, str] = PrivateAttr(default_factory=dict)
    _written: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _with_demand(cls, fields: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(fields, dict) or not any("${{" in str(fields.get(place)) for place in PLACES):
            return make(fields)
        below = {"resources": Resources.model_fields, "retries": Retries.model_fields}
        demand = demand_in(fields, {place: below.get(place, ()) for place in cls.model_fields})
        stage = make(without_demand(fields, demand) if demand else fields)
        if demand:
            stage._demand.update(demand)
            stage._written.update({place: fields[place] for place in PLACES if place in fields})
        return stage

    @property
    def demand(self) -> Mapping[Place, str]:
        """The expressions that say what each of its tasks asks for, by key; the model holds the rest."""
        return self._demand

    @property
    def chooses_environment(self) -> bool:
        """Whether an expression says where each of its tasks runs."""
        return ("environment",) in self.demand

    @property
    def is_surrounded(self) -> bool:
        """Whether it names an environment, or an expression chooses one."""
        return self.environment is not None or self.chooses_environment

    @property
    def bare(self) -> Self:
        """The stage without what stands in place of its expressions for sizes and durations."""
        return self.without(self.demand)

    def without(self, keys: Collection[Place]) -> Self:
        """Return the stage without the sizes and durations among some keys."""
        if not keys:
            return self
        left_out = {key: None for key in ("memory", "walltime") if ("resources", key) in keys}
        resources = self.resources.model_copy(update=left_out)
        timeout = None if ("timeout",) in keys else self.timeout
        return self.model_copy(update={"resources": resources, "timeout": timeout})

    def as_asked(self, values: Mapping[Place, Any], later: Collection[Place] = ()) -> dict[str, Any]:
        """Write a stage that asks for these values, if not null; the least stands in place of `later`."""
        own = {"command": ("true",), "checkpoint": self.checkpoint}
        grace = {} if self.grace is None else {"grace": f"{self.grace}s"}
        return {**own, **grace, **with_values(without_demand(self._written, later), values)}

    @property
    def interpreter(self) -> tuple[str, ...]:
        """The words before a command that is a text; none for a list."""
        shell = self.shell or "bash"
        words = SHELLS[shell] if isinstance(shell, str) else shell
        return words if isinstance(self.command, str) else ()

    @property
    def exports(self) -> bool:
        """Whether any of its outputs is exported."""
        return any(output.export is not None for output in self.outputs.values())

    @property
    def rendered(self) -> dict[str, Rendering]:
        """The files that are made from templates."""
        return {name: file for name, file in self.files.items() if isinstance(file, Rendering)}

    @property
    def asks(self) -> tuple[str, ...]:
        """The stages that its tasks ask; last the one that they ask before they run."""
        first = () if self.surrogate is None else (self.surrogate.service,)
        return tuple(dict.fromkeys((*self.services, *first)))

    @property
    def replicas(self) -> int:
        """Its tasks at each point of its axes: several share the requests."""
        return 1 if self.service is None else self.service.replicas

    @property
    def joined(self) -> bool:
        """Whether its tasks run beside those of other stages."""
        return bool(self.beside) or any(output.stream is not None for output in self.outputs.values())

    @property
    def moves_data(self) -> bool:
        """Whether any of its inputs or outputs is on its nodes' own disks, or split."""
        brought = any(source.stage is not None or source.shard is not None for source in self.inputs.values())
        return brought or any(output.drain for output in self.outputs.values())

    @property
    def plain(self) -> bool:
        """Whether only the places of its inputs and outputs are given."""
        return all(source.is_plain for source in self.inputs.values()) and all(
            output.is_plain for output in self.outputs.values()
        )

    def rule(self, kind: FailureClass) -> Rule:
        """Return the policy after a failure of a class: its own over the defaults."""
        usual = Rule(self.retries.limit, self.retries.backoff, shared=True)
        policy, default = self.on.of(kind), default_rule(kind, self.resources, usual)
        return Rule(
            retries=default.retries if policy.retries is None else policy.retries,
            backoff=default.backoff if policy.backoff is None else policy.backoff,
            shared=default.shared and policy.retries is None,
            memory=policy.memory or (1.0 if self._grows("memory") else default.memory),
            walltime=policy.walltime or (1.0 if self._grows("walltime") else default.walltime),
            exclude=bool(policy.exclude),
        )

    def _grows(self, key: str) -> bool:
        """Return whether an expression says itself how much more a retry gets."""
        return "task.attempt" in self.demand.get(("resources", key), "")

    def flaws(self) -> Iterator[Violation]:
        if self.module is not None and self.command is not None:
            hint = "drop one of them, or make two stages"
            yield Violation("a stage has a module or a command, found both", hint, ("command",))
        elif self.module is None and self.command is None:
            hint = "write module: NAME (`diel modules` lists them), or command: [PROGRAM, ...]"
            yield Violation("a stage needs a module or a command, found neither", hint)
        else:
            for name, output in self.outputs.items():
                yield from _form_flaws(name, output, returned=self.module is not None)
        if self.shell is not None and not isinstance(self.command, str):
            hint = "drop it: a list of words and a module need no shell"
            yield Violation("`shell` goes with a command that is a text", hint, ("shell",))
        if self.isolation is not None and self.module is None:
            yield Violation("a command has a process of its own anyway", "drop `isolation`", ("isolation",))
        if isinstance(self.when, str) and not self.when.strip():
            yield Violation("an empty condition", "write an expression, or drop `when`", ("when",))
        yield from _shared_paths(self.outputs)
        if self.rendered:
            yield from rendering_flaws(self.rendered)
        if self.on.model_fields_set:
            yield from policy_flaws(self.on, self.resources, self.timeout)
        if self.grace is not None:
            yield from _grace_flaws(self.grace, self.checkpoint, self.resources.walltime, self.timeout)
        if self.service is not None:
            yield from service_flaws(self, beside=bool(self.beside), mpi=self.resources.mpi)


def _grace_flaws(
    grace: float, checkpoint: bool, walltime: float | None, timeout: float | None
) -> Iterator[Violation]:
    if not checkpoint:
        hint = "write checkpoint: true, if it saves and continues; or drop `grace`"
        yield Violation("`grace` is time to save in, but there is no `checkpoint: true`", hint, ("grace",))
        return
    for name, limit in (("walltime", walltime), ("timeout", timeout)):
        if limit is not None and grace >= limit:
            short, whole = format_duration(grace), format_duration(limit)
            hint = f"use a shorter grace, or a longer {name}"
            yield Violation(f"a grace of {short} uses up the {name} of {whole}", hint, ("grace",))


def _form_flaws(name: str, output: Output, *, returned: bool) -> Iterator[Violation]:
    """Yield flaws of outputs: a command says where they are; a module returns them, and can describe them."""
    form = output.form
    if returned and form not in (None, "stream"):
        hint = "drop it; what the function returns is what other stages read"
        if output.promises:
            hint = f"drop `{form}` and leave the contract; what the function returns is checked by it"
        yield Violation("a Python module returns its outputs", hint, ("outputs", name, str(form)))
    elif not returned and form is None:
        yield NO_FORM._replace(key=("outputs", name))


def _shared_paths(outputs: dict[str, Output]) -> Iterator[Violation]:
    owners: dict[str, str] = {}
    for name, output in outputs.items():
        if output.path is not None:
            path = "/".join(part for part in output.path.split("/") if part not in ("", "."))
            path += f":{output.inside}" if output.inside else ""
            if (owner := owners.setdefault(path, name)) != name:
                message = f"'{owner}' and '{name}' are the same file {quote(output.path)}"
                yield Violation(message, "give each output a file of its own", ("outputs", name))
