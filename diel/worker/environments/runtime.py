"""The runtimes of containers: how each starts a program in an image.

The words follow the manuals of Apptainer 1.3, Charliecloud 0.31 (which the tests run), podman-hpc 1.1, Podman
4.3 and Shifter 23.03. All run as the current user, see the machine's network and processes, as MPI's ranks
must to find each other, and none writes into the image.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import NamedTuple

from diel.base.errors import UsageError
from diel.store.artifacts import content
from diel.worker.environments.kept import find_tool, output_of
from diel.worker.environments.prepared import PreparedContainer

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NVIDIA, _AMD = "/dev/nvidiactl", "/dev/kfd"
_QUESTIONS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "podman": lambda image: ("image", "inspect", "--format", "{{.Digest}}", image),
    "podman-hpc": lambda image: ("image", "inspect", "--format", "{{.Digest}}", image),
    "shifter": lambda image: ("lookup", image.removeprefix("docker:")),
}
"""The questions to a runtime, without a network, for the digest of an image that it knows by name."""
_ASKED = {"shifter": "shifterimg"}
PATIENCE = 20.0


class NoContainer(Exception):
    """A container cannot be started here; says why, and what to do."""


class Box(NamedTuple):
    """One start of a container."""

    program: str
    image: str
    folder: str
    mounts: Sequence[str]
    """SOURCE, SOURCE:PLACE or SOURCE:PLACE:ro, each."""
    variables: Mapping[str, str]
    """The variables that it must have whatever the image says."""
    nvidia: bool = False
    amd: bool = False


def start_words(
    contained: PreparedContainer,
    folder: str,
    sees: Sequence[str],
    env: Mapping[str, str],
    variables: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the words before a program that start it in a container. Raise NoContainer."""
    runtime, program = find_runtime(contained, env.get("PATH", os.defpath))
    expanded = [_expanded(mount, env) for mount in contained.mounts]
    places = {mount.partition(":")[0] for mount in expanded if ":" not in mount}
    mounts = [*(place for place in dict.fromkeys(sees) if place not in places), *expanded]
    gpus = os.path.exists(_NVIDIA), os.path.exists(_AMD)
    return _WORDS[runtime](Box(program, contained.image, folder, mounts, variables, *gpus))


def find_runtime(contained: PreparedContainer, path: str) -> tuple[str, str]:
    """Find a container's runtime and its program: as asked, or the first that fits. Raise NoContainer."""
    names = [contained.runtime] if contained.runtime else _fitting(contained.image)
    for name in names:
        program = shutil.which(_program(name), path=path)
        if program is not None:
            return name, program
    looked = ", ".join(map(_program, names))
    hint = "install one, load it by `modules`, or name another `runtime`"
    raise NoContainer(f"no runtime for the container: looked for {looked} on PATH; {hint}")


def _program(runtime: str) -> str:
    return {"charliecloud": "ch-run"}.get(runtime, runtime)


def _fitting(image: str) -> list[str]:
    if image.endswith((".sqfs", ".squashfs")) or os.path.isdir(image):
        return ["charliecloud", "apptainer", "singularity"]
    if image.startswith("/") or "://" in image:
        return ["apptainer", "singularity"]
    return ["podman-hpc", "shifter", "podman", "charliecloud"]


def _expanded(mount: str, env: Mapping[str, str]) -> str:
    source, colon, rest = mount.partition(":")
    for name in sorted(env, key=len, reverse=True):
        source = source.replace(f"${{{name}}}", env[name]).replace(f"${name}", env[name])
    if "$" in source:
        raise NoContainer(f"the mount {mount} names a variable that is not set")
    return f"{os.path.expanduser(source)}{colon}{rest}"


def _apptainer(box: Box) -> tuple[str, ...]:
    binds = [word for mount in box.mounts for word in ("--bind", mount)]
    gpus = [*(["--nv"] if box.nvidia else []), *(["--rocm"] if box.amd else [])]
    prefix = f"{os.path.basename(box.program).upper()}ENV_"  # an image cannot overwrite these
    variables = [f"{prefix}{name}={value}" for name, value in box.variables.items()]
    start = ("env", *variables, box.program) if variables else (box.program,)
    return (*start, "exec", *gpus, *binds, "--pwd", box.folder, box.image)


def _charliecloud(box: Box) -> tuple[str, ...]:
    """Return the words for ch-run, which shows the machine's /tmp; ch-fromhost(1) adds GPUs to an image."""
    if any(mount.endswith(":ro") for mount in box.mounts):
        raise NoContainer("charliecloud mounts nothing read-only: drop :ro")
    binds = dict.fromkeys(f"--bind={_place(mount, box.image)}" for mount in box.mounts)
    binds.pop("--bind=", None)
    own = f"{box.image}/ch/environment"
    path = f"--set-env={own}" if os.path.exists(own) else f"--set-env=PATH={_PATH}"
    variables = [f"--set-env={name}={value}" for name, value in box.variables.items()]
    start = ("env", "-u", "TMPDIR", f"USER={os.environ.get('USER') or os.getuid()}", box.program)
    return (*start, "--env-no-expand", *binds, path, *variables, f"--cd={box.folder}", box.image, "--")


def _place(mount: str, image: str) -> str:
    """Return a mount for an image in which no directory can be made: its place must exist, or an empty
    directory above it. Return nothing for a place below /tmp, which the container sees anyway."""
    source, _, target = mount.partition(":")
    path = target or source
    if path == "/tmp" or path.startswith("/tmp/"):
        return ""
    if not os.path.isdir(image) or os.path.isdir(f"{image}{path}"):
        return f"{source}:{path}"
    above = path
    while above != "/" and not target:
        above = os.path.dirname(above)
        inside = f"{image}{above}"
        if above != "/" and os.path.isdir(inside) and not os.listdir(inside):
            return f"{above}:{above}"
    raise NoContainer(f"the image has no directory {path} to mount on: mkdir -p {image}{path}")


def _podman(box: Box) -> tuple[str, ...]:
    devices = [] if not box.nvidia else ["--device=nvidia.com/gpu=all"]
    devices += [] if not box.amd else ["--device=/dev/kfd", "--device=/dev/dri"]
    return _podman_run(box, devices)


def _podman_run(box: Box, gpus: Sequence[str]) -> tuple[str, ...]:
    share = ("--network=host", "--ipc=host", "--pid=host", "--env-host", "--entrypoint=")
    return (box.program, "run", "--rm", *share, *gpus, *_options(box, "/tmp"), box.image)


def _shifter(box: Box) -> tuple[str, ...]:
    gpus = ["--module=gpu"] if box.nvidia else []
    return (box.program, f"--image={box.image}", *gpus, *_options(box))


def _options(box: Box, *more: str) -> Iterator[str]:
    """Yield mounts, with `more` of them, variables and the directory, as Docker's options name them."""
    yield from (f"--volume={m if ':' in m else f'{m}:{m}'}" for m in (*more, *box.mounts))
    yield from (f"--env={name}={value}" for name, value in box.variables.items())
    yield f"--workdir={box.folder}"


_WORDS: dict[str, Callable[[Box], tuple[str, ...]]] = {
    "apptainer": _apptainer,
    "singularity": _apptainer,
    "charliecloud": _charliecloud,
    "podman-hpc": lambda box: _podman_run(box, ["--gpu"] if box.nvidia else []),
    "podman": _podman,
    "shifter": _shifter,
}


def version_of_image(name: str, image: str, runtime: str, *, here: bool) -> str:
    """Return an image's digest of content or listing, or its name. Raise UsageError if it is not `here`."""
    if image.startswith("/"):
        if os.path.isdir(image):
            return content(image, "stat")[1]
        try:
            return content(image)[1]
        except OSError as error:
            if not here:
                return image
            raise UsageError(f"environment '{name}': no image {image}: {error.strerror}") from error
    if "@sha256:" in image:
        return image
    for tool in [runtime] if runtime else _QUESTIONS:
        program = find_tool(_ASKED.get(tool) or _program(tool))
        if program is not None and tool in _QUESTIONS:
            with suppress(UsageError, TimeoutExpired):
                answer = output_of([program, *_QUESTIONS[tool](image)], "", timeout=PATIENCE)
                if answer.strip():
                    return answer.strip()[:200]
    return image
