"""Counts what one rank of a task uses: `python -IS usage.py FOLDER --launch=N PROGRAM [ARG…]`.

Runs the program, ends as it did, and leaves its count in the folder: it may be on another node. It is run as
a file, and imports nothing that a Python would have to look for, which takes a hundredth of a second.
"""

import errno
import os
import resource
import signal
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LONGEST = 10.0
"""The most seconds between two looks at shared memory."""


def main() -> None:
    """Run the program."""
    folder, launch, words = sys.argv[1], sys.argv[2], sys.argv[3:]
    passed_on = [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)  # until there is somebody to pass them on to
    child = _start(words, (*passed_on, signal.SIGPIPE, signal.SIGXFSZ))  # Python ignores the last two
    for number in passed_on:
        signal.signal(number, lambda number, _: _tell(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    shared = _watch(child)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    moved = _moved(child)
    _, status, used = os.wait4(child, 0)
    cpu = used.ru_utime + used.ru_stime
    memory = used.ru_maxrss * 1024 - shared[0]
    report = f"{cpu:.6f} {used.ru_stime:.6f} {memory} {moved[0]} {moved[1]}\n"
    _leave(f"{folder}/{launch.partition('=')[2]}.{os.uname().nodename}.{os.getpid()}", report)
    _end_alike(os.waitstatus_to_exitcode(status))


def _tell(child: int, number: int) -> None:
    try:  # noqa: SIM105 - contextlib would have to be looked for
        os.kill(child, number)
    except ProcessLookupError:
        pass  # it has ended already, and this process is about to end as it did


def _start(words: list[str], defaults: tuple[signal.Signals, ...]) -> int:
    try:
        return os.posix_spawnp(words[0], words, os.environ, setsigmask=(), setsigdef=defaults)
    except OSError as error:
        if error.errno == errno.ENOEXEC and words[0] != "sh":  # a script that does not name its shell
            return _start(["sh", *words], defaults)
        print(f"{words[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201 - the task's own
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def _watch(child: int) -> list[int]:
    """Return bytes of shared memory that others have their part of, as of an MPI window; it grows."""
    most, pause = [0], [0.1]

    def look(*_: object) -> None:
        shared = _status_of(child, "status", b"RssShmem:")
        if shared:  # looked at before and after its part: a rank may give its memory back meanwhile
            own = _status_of(child, "smaps_rollup", b"Pss_Shmem:", shared)
            most[0] = max(most[0], min(shared, _status_of(child, "status", b"RssShmem:")) - own)
        pause[0] = min(2 * pause[0], LONGEST)
        signal.setitimer(signal.ITIMER_REAL, pause[0])

    signal.signal(signal.SIGALRM, look)
    look()
    return most


def _status_of(child: int, name: str, key: bytes, unknown: int = 0) -> int:
    """Return a number of KiB that the kernel tells of a process, in bytes."""
    try:
        with open(f"/proc/{child}/{name}", "rb") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(key)), unknown)
    except OSError:
        return unknown


def _moved(child: int) -> tuple[int, int]:
    """Return bytes that it read and wrote: see diel/worker/attempt/usage.py."""
    try:
        with open(f"/proc/{child}/io", "rb") as file:
            words = file.read().split()
        return max(int(words[1]), int(words[9])), max(int(words[3]), int(words[11]))
    except (OSError, ValueError, IndexError):
        return 0, 0


def _leave(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        pass  # a full disk: the rank has not failed for it


def _end_alike(code: int) -> None:
    """End as the program did: launchers tell what ended a rank."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one image of it is enough
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
