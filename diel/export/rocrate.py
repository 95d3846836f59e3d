"""A Provenance Run Crate: the run as an RO-Crate, with its workflow, its files, what made what of what."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from rocrate.model import ComputerLanguage, ContextEntity, Person
from rocrate.rocrate import ROCrate

from diel.base.errors import UsageError, counted
from diel.base.states import RunState
from diel.base.values import json_value
from diel.export import Key, TaskOutcome, left_out, ran, read_by, when
from diel.observe.results import RunReader
from diel.store.artifacts import Artifact
from diel.tasks.results import artifact_home

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
CONTEXT = "https://w3id.org/ro/terms/workflow-run/context"
FORMAL = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
_TYPES = {"int": "Integer", "float": "Float", "bool": "Boolean"}
_STATUS = {True: "http://schema.org/CompletedActionStatus", False: "http://schema.org/FailedActionStatus"}
_USAGE = {"cpu_seconds": "SEC", "memory_bytes": "AD", "read_bytes": "AD", "written_bytes": "AD"}
"""What is told of what an attempt used, with the code of its unit: seconds, bytes."""


def write(run: RunReader, into: Path, target: Path) -> list[str]:
    """Write the crate. Raise UsageError for a run of which no task has ended."""
    tasks = ran(run)
    if not tasks:
        raise UsageError(f"{run.paths.run_id} has no task that ended: there is nothing to tell about yet")
    telling = _CrateWriter(run, tasks)
    telling.crate.write(into)
    files = counted(len(telling.files), "file")
    return [f"{counted(len(tasks), 'task')}, {files} of theirs", *left_out(run, tasks)]


class _CrateWriter:
    """The crate of a run, while it is filled."""

    def __init__(self, run: RunReader, tasks: Mapping[Key, TaskOutcome]) -> None:
        self.run, self.tasks = run, tasks
        self.crate = ROCrate(version="1.1")
        self.files: dict[str, Any] = {}
        """The entity of each file or directory, by its path."""
        self.crate.metadata.extra_contexts.append(CONTEXT)
        self.person = self.crate.add(Person(self.crate, f"#{run.run_file.user}", {"name": run.run_file.user}))
        self.workflow = self._workflow()
        self.steps, self.tools = self._steps()
        self.actions = {key: self._action(key) for key in tasks}
        self._root(self._whole())

    def entity(self, identifier: str, kind: str, /, **facts: Any) -> Any:
        """Return an entity with the facts that are known."""
        present = {fact: value for fact, value in facts.items() if value not in (None, "", [])}
        return self.crate.add(ContextEntity(self.crate, identifier, {"@type": kind, **present}))

    def _workflow(self) -> Any:
        """Return the workflow's file, with its hyperparameters as its parameters."""
        run = self.run
        language = ComputerLanguage(self.crate, "#diel-language", {"name": "diel", "alternateName": "diel"})
        language["url"] = "https://yaml.org/"
        facts = {
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "name": run.run_file.workflow,
            "description": run.workflow.description or f"The workflow of {run.paths.run_id}",
            "encodingFormat": "application/yaml",
        }
        add, place = self.crate.add_workflow, "workflow.yaml"
        workflow = add(run.paths.workflow, place, main=True, lang=self.crate.add(language), properties=facts)
        self.given = []
        for name, value in run.run_file.hyperparameters.items():
            hyperparameter = run.workflow.hyperparameters.get(name)
            kind = _TYPES.get(hyperparameter.type, "Text") if hyperparameter is not None else "Text"
            formal = self.entity(
                f"#hp.{name}", "FormalParameter", name=name, additionalType=kind, conformsTo={"@id": FORMAL}
            )
            held = self.entity(
                f"#hp.{name}.value", "PropertyValue", name=name, value=_plain(value), exampleOfWork=formal
            )
            formal["workExample"] = held
            workflow.append_to("input", formal)
            self.given.append(held)
        return workflow

    def _steps(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a step and a tool for each stage with an ended task: a tool without an action is none."""
        steps, tools = {}, {}
        for place, name in enumerate(dict.fromkeys(stage for stage, _ in self.tasks)):
            spec = self.run.workflow.stages[name]
            command = spec.command if isinstance(spec.command, str) else " ".join(spec.command or ())
            tools[name] = self.entity(
                f"#tool.{name}",
                "SoftwareApplication",
                name=spec.module or name,
                description=spec.module or command,
            )
            steps[name] = self.entity(
                f"#step.{name}", "HowToStep", name=name, position=str(place), workExample=tools[name]
            )
            self.workflow.append_to("step", steps[name])
            self.workflow.append_to("hasPart", tools[name])
        return steps, tools

    def _action(self, key: Key) -> Any:
        """Describe a task: its point and files read, its files and values made."""
        task = self.tasks[key]
        point = {**self.run.point(*key), **self.run.hyperparameters(*key)}
        read = (
            file
            for parent, outputs in read_by(self.run, key, self.tasks).items()
            for output in outputs
            for file in self._file(self.tasks[parent], output)
        )
        values = (("value", name, value) for name, value in task.outcome.get("values", {}).items())
        files = (file for output in task.outcome.get("artifacts", {}) for file in self._file(task, output))
        return self.entity(
            f"#task.{task.task}",
            "CreateAction",
            name=self.run.named(task.task),
            description=_described(task),
            instrument=self.tools[task.stage],
            agent=self.person,
            object=[*self._values(task, (("at", name, value) for name, value in point.items())), *read],
            result=[*self._values(task, values), *files],
            startTime=None if task.began is None else when(task.began),
            endTime=None if task.ended is None else when(task.ended),
            actionStatus=_STATUS[task.state.good],
            error=task.message,
            resourceUsage=[*self._usage(task)],
        )

    def _values(self, task: TaskOutcome, values: Iterable[tuple[str, str, Any]]) -> Iterator[Any]:
        for role, name, value in values:
            yield self.entity(f"#{role}.{task.task}.{name}", "PropertyValue", name=name, value=_plain(value))

    def _usage(self, task: TaskOutcome) -> Iterator[Any]:
        for name, unit in _USAGE.items():
            if task.usage.get(name) is not None:
                value = str(task.usage[name])
                facts = {"name": name, "propertyID": f"#{name}", "unitCode": unit, "value": value}
                yield self.entity(f"#used.{task.task}.{name}", "PropertyValue", **facts)

    def _file(self, task: TaskOutcome, output: str) -> list[Any]:
        """Return the files of an output, which are copied into the crate; none that were deleted since."""
        entries = []
        for name, file in task.files(self.run.paths.root):
            if name == output:
                if file not in self.files:
                    self.files[file] = self._add(task, file)
                entries.append(self.files[file])
        return entries

    def _add(self, task: TaskOutcome, file: Artifact) -> Any:
        home = self.run.paths.root
        away = task.outcome.get("run")
        place = os.path.relpath(file, artifact_home(task.outcome, home))
        place = place if away is None else f"earlier/{away}/{place}"
        facts = {"name": Path(place).name}
        if Path(file).is_dir():
            return self.crate.add_dataset(str(file), place, properties=facts)
        kind, _ = guess_type(place)
        facts |= {"contentSize": str(file.bytes), **({"encodingFormat": kind} if kind else {})}
        return self.crate.add_file(str(file), place, properties=facts)

    def _whole(self) -> list[Any]:
        """Describe the run as a whole, and what diel had each step do."""
        run, history = self.run, self.run.history
        began = when(run.run_file.created)
        ended = None if history.ended is None or run.state is RunState.RUNNING else when(history.ended)
        status = _STATUS[run.state is RunState.SUCCEEDED] if run.state.ended else None
        times = {"startTime": began, "endTime": ended, "actionStatus": status}
        whole = self.entity(
            "#run",
            "CreateAction",
            name=run.paths.run_id,
            description=f"The run {run.paths.run_id}: {run.state}",
            instrument=self.workflow,
            agent=self.person,
            object=self.given,
            result=[*self.files.values()],
            **times,
        )
        engine = self.entity("#diel", "SoftwareApplication", name="diel", softwareVersion=run.run_file.diel)
        controls = [
            self.entity(
                f"#control.{stage}/{number}",
                "ControlAction",
                name=f"have {stage}/{number} run",
                instrument=self.steps[stage],
                object=action,
            )
            for (stage, number), action in self.actions.items()
        ]
        organized = self.entity(
            "#organization",
            "OrganizeAction",
            name=f"diel runs {run.paths.run_id}",
            instrument=engine,
            agent=self.person,
            object=controls,
            result=whole,
            **times,
        )
        return [whole, *self.actions.values(), organized]

    def _root(self, mentioned: list[Any]) -> None:
        run, root = self.run, self.crate.root_dataset
        root["name"] = f"{run.paths.run_id}, a run of the workflow {run.run_file.workflow}"
        root["description"] = run.workflow.description or f"Made by diel {run.run_file.diel}: {run.state}"
        root["datePublished"] = when(run.run_file.created if run.history.ended is None else run.history.ended)
        root["license"] = "No licence is given: ask whoever ran it"
        root["author"] = self.person
        root["mentions"] = mentioned
        root["conformsTo"] = [
            self.entity(profile, "CreativeWork", name=name, version=version)
            for profile, (name, version) in PROFILES.items()
        ]


def _described(task: TaskOutcome) -> str:
    origin = task.outcome.get("run")
    return f"{task.task}, taken from the run {origin}" if origin else f"Attempt {task.attempt} of {task.task}"


def _plain(value: Any) -> bool | int | float | str:
    value = json_value(value)
    return value if isinstance(value, bool | int | float | str) else json.dumps(value)
