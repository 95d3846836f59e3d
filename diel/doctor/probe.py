"""What the trial job of `diel doctor` runs on a node: it looks around, and reports back.

    DIEL_DOCTOR_TOKEN=… python probe.py FOLDER POOL PORT ADDRESS,… LAUNCHER PACKAGE,…

Started by its path, with the standard library alone: it must be able to say that diel is not there.
The report goes into a file of the folder, and over TCP to the doctor, whichever of the two arrives.
"""

import hashlib
import hmac
import json
import os
import platform
import shutil
import socket
import sys
import time
from importlib import metadata

GPU_VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL", "SLURM_JOB_GPUS"),
)
PATIENCE = 5.0
"""Seconds to try each address of the doctor's host."""


def main() -> None:
    """Look around, and report."""
    folder, pool, port, hosts, launcher, packages = sys.argv[1:7]
    refused: dict[str, str] = {}
    report: dict[str, object] = {
        "pool": pool,
        "host": socket.gethostname(),
        "python": sys.executable,
        "version": platform.python_version(),
        "packages": {name: version_of(name) for name in packages.split(",")},
        "token": token_file(folder),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "host_cores": os.cpu_count(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": {name: os.environ[name] for name in GPU_VARIABLES if name in os.environ},
        "launcher": shutil.which(launcher, path=os.path.dirname(sys.executable)) or shutil.which(launcher),
        "local": local_disk(os.environ.get("DIEL_DOCTOR_LOCAL", "")),
        "time": time.time(),
        "reached": "",
        "refused": refused,
    }
    secret = os.environ.get("DIEL_DOCTOR_TOKEN", "").encode()
    for host in filter(None, hosts.split(",")):
        try:
            send(host, int(port), secret, {**report, "reached": host})
        except (OSError, ValueError) as error:
            refused[host] = str(error)
        else:
            report["reached"] = host
            break
    write(folder, pool, report)


def version_of(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def token_file(folder: str) -> str:
    """Return the digest of the file that the doctor left; empty if not visible here."""
    try:
        with open(os.path.join(folder, "token"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def local_disk(named: str) -> dict[str, object]:
    """Return the node's own disk for diel, and whether a file can be made there. `named` is the site
    file's word, which may have variables; the others are looked at in diel's order."""
    variables = (os.environ.get(name) for name in ("DIEL_LOCAL_DIR", "SLURM_TMPDIR", "TMPDIR"))
    folder = os.path.expandvars(named) or next(filter(None, variables), "/tmp")
    try:
        trial = os.path.join(folder, f".diel-doctor-{os.getpid()}")
        with open(trial, "xb") as file:
            file.write(b"one")
        os.unlink(trial)
        space = os.statvfs(folder)
    except OSError as error:
        return {"dir": folder, "error": error.strerror or str(error)}
    return {"dir": folder, "free": space.f_bavail * space.f_frsize}


def send(host: str, port: int, secret: bytes, report: dict[str, object]) -> None:
    """Report over TCP; the secret itself stays here. Raise OSError if the doctor is not reached."""
    with socket.create_connection((host, port), timeout=PATIENCE) as link:
        file = link.makefile("rwb")
        challenge = file.readline(100).strip()
        body = json.dumps(report).encode()
        proof = hmac.new(secret, challenge + body, hashlib.sha256).hexdigest().encode()
        file.write(proof + b" " + body + b"\n")
        file.flush()
        if file.readline(10).strip() != b"ok":
            raise OSError("what listens there is not this doctor")


def write(folder: str, pool: str, report: dict[str, object]) -> None:
    """Leave the report in the folder, in one step."""
    path = os.path.join(folder, pool + ".json")
    try:
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(report, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".part", path)
    except OSError as error:
        sys.stderr.write("cannot write " + path + ": " + str(error) + "\n")


if __name__ == "__main__":
    main()
