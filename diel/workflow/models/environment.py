"""An environment: the modules, libraries and container in which the programs of a stage run."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from diel.workflow.models.model import (
    Items,
    Later,
    Line,
    SpecModel,
    Text,
    Violation,
    Violations,
    optional,
    quote,
    refuse,
    written_as,
)

Runtime = Literal["apptainer", "singularity", "charliecloud", "podman-hpc", "podman", "shifter"]
_MODULE = re.compile(r"[\w.+@:/-]+")
_VERSION = re.compile(r"3\.\d{1,2}")
_HELD = ("conda", "spack", "python")
_FILES = (".sif", ".simg", ".img", ".sqfs", ".squashfs")
_PLAIN_PATH = re.compile(r"[^:,\"\\\n\x00-\x1f]+")


def _located(path: str, folder: Path) -> str:
    return os.path.abspath(folder / os.path.expanduser(os.path.expandvars(path)))


def named(value: Any) -> Any:
    """Return a stage's `environment`, as written. Raise Flaws where it is no text."""
    if isinstance(value, dict):
        raise refuse(
            "expected the name of an environment, found a mapping",
            "define it under `environments`, and write its name here; variables alone go under `env`",
        )
    if not isinstance(value, str) and value is not None:
        raise refuse(f"expected the name of an environment, found {quote(value)}")
    return value


def _module(name: str) -> str:
    if _MODULE.fullmatch(name) is None:
        hint = "write its name alone, gcc/13; other words of `module` go into `setup`: module use DIR"
        raise refuse(f"expected a module's name, found {quote(name)}", hint)
    return name


def _lines(value: Any) -> Any:
    if isinstance(value, str):
        lines = [line.strip() for line in value.splitlines() if line.strip()]
        hint = f"write each line as an item of its own: - {lines[0] if lines else 'export A=1'}"
        raise refuse("expected a list of lines, found a text", hint)
    return value


def _spack(value: Any) -> Any:
    if isinstance(value, str | list | tuple) and value:
        return value
    hint = "write [gromacs@2023 +mpi] to load these, or the name or directory of an environment of Spack's"
    raise refuse(f"expected specs or an environment's name, found {quote(value)}", hint)


def variable_names(variables: dict[str, Any]) -> dict[str, Any]:
    """Refuse impossible names of variables, and variables that diel sets."""
    flaws = []
    for name in variables:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
            hint = "a variable's name has letters, digits and _, and starts with no digit"
            flaws.append(Violation(f"{quote(name)} is not a name of an environment variable", hint, (name,)))
        elif name.startswith("DIEL_"):
            message = "variables that start with DIEL_ are set by diel"
            flaws.append(Violation(message, "take another name", (name,)))
    if flaws:
        raise Violations(*flaws)
    return variables


def _constant(variables: dict[str, Any]) -> dict[str, Any]:
    for name, value in variables.items():
        if "${{" in str(value):
            hint = "write it under the stage's `env`, which has expressions"
            raise refuse("the variables of an environment are the same for all its tasks", hint, name)
    return variables


def _mount(text: str) -> str:
    source, *rest = text.split(":")
    target, mode = (*rest, "", "")[:2]
    good = len(rest) <= 2 and mode in ("", "ro", "rw") and bool(source)
    if not good or (rest and not target.startswith("/")) or not _PLAIN_PATH.fullmatch(text.replace(":", "")):
        hint = "write /data, /data:/place/in/the/container, or that with :ro at the end"
        raise refuse(f"expected a directory, or DIR:DIR[:ro], found {quote(text)}", hint)
    return text


def _version(value: Any) -> Any:
    text = str(value) if isinstance(value, float) else value
    if not isinstance(value, str) or _VERSION.fullmatch(value) is None:
        hint = f'write it in quotes: version: "{text}"' if _VERSION.fullmatch(str(text)) else 'as in "3.12"'
        raise refuse(f"expected a version of Python, found {quote(value)}", hint)
    return value


Variables = Annotated[
    dict[str, Text | int | float], AfterValidator(variable_names), AfterValidator(_constant)
]


class PythonPackages(SpecModel):
    """Python packages, installed once by uv."""

    requirements: Annotated[Text, Field(min_length=1)] = Field(
        description="File of requirements, as pip reads them, or a lock; relative to the file that names it."
    )
    version: Annotated[str, BeforeValidator(_version)] | None = optional(
        'Version of Python, as "3.12"; the one that runs diel if absent.'
    )

    _short = written_as("a file or a mapping", "for instance `requirements.txt`", text="requirements")

    def flaws(self) -> Iterator[Violation]:
        if self.requirements.endswith((".yml", ".yaml")):
            hint = "write conda: environment.yml, or a file as pip reads it"
            yield Violation("a YAML file is no file of requirements", hint, ("requirements",))


class Container(SpecModel):
    """The image of a container, and what it sees of the machine."""

    image: Annotated[Text, Field(min_length=1)] = Field(
        description="File (.sif, .sqfs) or directory, relative to the file that names it; or a name that "
        "the runtime knows."
    )
    runtime: Runtime | None = optional("What runs it; the one found on the machine if absent.")
    mounts: Items[Annotated[Text, AfterValidator(_mount)]] = optional(
        "Directories of the machine that it sees besides its own: /data, /a:/b, /a:/b:ro.", ()
    )

    _short = written_as("an image or a mapping", "for instance `tools.sif`", text="image")

    def beside(self, folder: Path) -> "Container":
        """Return the same environment with absolute paths in place of those relative to a folder."""
        image = self.image
        written = image.startswith(("/", "./", "../", "~", "$")) or image.endswith(_FILES)
        if written or (":" not in image and (folder / image).exists()):
            image = _located(image, folder)
        parts = [mount.partition(":") for mount in self.mounts]
        mounts = ("".join((_located(a, folder) if a.startswith(".") else a, *rest)) for a, *rest in parts)
        return self.model_copy(update={"image": image, "mounts": tuple(mounts)})

    def flaws(self) -> Iterator[Violation]:
        for place, mount in enumerate(self.mounts if self.runtime == "charliecloud" else ()):
            if mount.endswith(":ro"):
                message = "charliecloud mounts nothing read-only"
                yield Violation(message, "drop :ro, or take another runtime", ("mounts", place))


class Environment(SpecModel):
    """What is set up around a program, in the order of the keys here."""

    description: str = optional("What it is for, for readers.", "")
    modules: Items[Annotated[Text, AfterValidator(_module)]] = optional(
        "Modules to load, in this order: gcc/13, openmpi.", ()
    )
    setup: Annotated[Items[Line], BeforeValidator(_lines)] = optional(
        "Lines for bash; what they change of the environment holds.", ()
    )
    conda: Annotated[Text, Field(min_length=1)] | None = optional(
        "Directory of a Conda environment, or an environment.yml of which one is made once."
    )
    spack: Annotated[Text | Items[Text] | None, BeforeValidator(_spack)] = optional(
        "Specs to load, as a list; or the name or directory of an environment of Spack's."
    )
    python: Later[PythonPackages] | None = optional("Python packages: a file of requirements.")
    variables: Variables = Field(
        default_factory=dict, description="Environment variables; a stage's `env` beats them."
    )
    container: Later[Container] | None = optional("A container in which the programs run: its image.")

    @property
    def prefix(self) -> str | None:
        """The directory of a Conda environment, if it names one."""
        return None if (self.conda or ".yml").endswith((".yml", ".yaml")) else self.conda

    _mapping = written_as("a mapping", "for instance {modules: [gcc/13], setup: [export X=1]}")

    def beside(self, folder: Path) -> "Environment":
        """Return the same environment with absolute paths in place of those relative to a folder."""
        changes: dict[str, Any] = {}
        if self.python is not None:
            file = _located(self.python.requirements, folder)
            changes["python"] = self.python.model_copy(update={"requirements": file})
        if self.conda is not None:
            changes["conda"] = _located(self.conda, folder)
        if isinstance(self.spack, str) and ("/" in self.spack or (folder / self.spack).is_dir()):
            changes["spack"] = _located(self.spack, folder)
        if self.container is not None:
            changes["container"] = self.container.beside(folder)
        return self.model_copy(update=changes)

    def flaws(self) -> Iterator[Violation]:
        held = [name for name in _HELD if getattr(self, name) is not None]
        if self.container is not None and held:
            hint = "install it in the image; `modules`, `setup` and `variables` go with a container"
            yield Violation(f"`{held[0]}` would be outside of the container", hint, (held[0],))
        elif "conda" in held and "python" in held:
            hint = "name the packages under `pip:` in environment.yml, or drop `conda`"
            yield Violation("`conda` and `python` bring a Python each", hint, ("python",))


class Definition(NamedTuple):
    """An environment with absolute paths, and where it comes from."""

    environment: Environment
    source: str
    """Who defines it: the workflow, or a site."""
    folder: Path
    """Where its lines run: the directory of the file that defines it, or of the workflow for a site."""
