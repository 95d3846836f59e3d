"""Keeps the ports of an MPI launcher on one machine from other hosts.

MPICH's mpiexec and Open MPI's mpirun listen on all addresses, which no option of theirs changes, and a dozen
bytes end the first. Their sockets are therefore bound to the loopback interface from outside, as soon as they
are there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

AT_HOME: Mapping[str, str] = {
    "HYDRA_IFACE": "lo",
    "UCX_NET_DEVICES": "lo",
    "FI_TCP_IFACE": "lo",
    "OMPI_MCA_btl": "^tcp,ofi",
}
"""Settings of launcher and ranks on one machine if nothing else is set: MPICH's launcher, its networks
by UCX and libfabric, and Open MPI, whose ranks share memory and would listen besides."""
LOOKS = 2
"""How often to look for ports after the first were found: a launcher does not open all at once."""
_SEVERAL_HOSTS = frozenset(
    {
        "-f",
        "-H",
        "-host",
        "-hosts",
        "--host",
        "--hosts",
        "-hostfile",
        "--hostfile",
        "-machinefile",
        "-configfile",
    }
)
_ALLOCATIONS = ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_JOBID", "PE_HOSTFILE", "FLUX_URI", "HYDRA_HOST_FILE")
"""Where launchers find hosts that nobody named."""
_GET_DESCRIPTOR = 438
"""The number of the system call pidfd_getfd, on every kind of machine."""
_ATTACH_FILTER = 26
_LISTENING = "0A"
_TO_LOOPBACK = (
    (0x20, 0, 0, 0xFFF00010),  # the packet's destination: word 16 of the IPv4 header
    (0x54, 0, 0, 0xFF000000),
    (0x15, 0, 1, 0x7F000000),
    (0x06, 0, 0, 0xFFFFFFFF),  # to 127.0.0.0/8: let it pass
    (0x06, 0, 0, 0),
)
"""A classic packet filter: code, jump if true, jump if false, operand."""
_NOTHING = ((0x06, 0, 0, 0),)


def at_home(launcher: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether all ranks of a launcher are on this machine: no hosts are named, and no scheduler gives any."""
    return (
        hasattr(os, "pidfd_open")  # Linux
        and os.path.exists("/sys/class/net/lo")
        and not any(name in environ for name in ("DIEL_BLOCK", *_ALLOCATIONS))
        and not _SEVERAL_HOSTS.intersection(launcher)
    )


class Doors:
    """The ports of one attempt's launchers."""

    def __init__(self) -> None:
        self._looks: dict[int, int] = {}

    def close(self, launchers: Iterable[int]) -> None:
        """Keeps the ports of these at home; cheap enough to call often."""
        for launcher in launchers:
            if self._looks.setdefault(launcher, LOOKS) and keep_at_home(launcher):
                self._looks[launcher] -= 1


def keep_at_home(launcher: int) -> bool:
    """Makes a launcher's open ports hear only this machine; returns whether it had any.

    Does nothing where the system does not allow it (containers, kernels before 5.7).
    """
    listening = {**_listening(launcher, "tcp"), **_listening(launcher, "tcp6")}
    found = False
    with contextlib.suppress(OSError):
        process = os.pidfd_open(launcher)
        try:
            for number, inode in _sockets(launcher):
                if inode in listening:
                    found = True
                    _bind(process, number, listening[inode])
        finally:
            os.close(process)
    return found


def _sockets(pid: int) -> Iterator[tuple[int, str]]:
    """The sockets of a process: descriptor and inode. Raises OSError if it is gone."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target.startswith("socket:["):
                yield int(name), target[8:-1]


def _listening(pid: int, kind: str) -> dict[str, str]:
    """Sockets that listen on all addresses, by inode, with their kind."""
    try:
        with open(f"/proc/{pid}/net/{kind}", encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
    except OSError:
        return {}
    return {row[9]: kind for row in rows if row[3] == _LISTENING and set(row[1].partition(":")[0]) == {"0"}}


def _bind(process: int, number: int, kind: str) -> None:
    """Binds a socket to this machine. Raises OSError if that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    mine = libc.syscall(_GET_DESCRIPTOR, process, number, 0)
    if mine < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    with socket.socket(fileno=mine) as port:
        lines = _TO_LOOPBACK if kind == "tcp" else _NOTHING
        code = b"".join(struct.pack("=HBBI", *line) for line in lines)
        held = ctypes.create_string_buffer(code)
        program = struct.pack("@HP", len(lines), ctypes.addressof(held))
        port.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
        port.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
