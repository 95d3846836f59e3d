"""The headline of a failure: outputs of real programs, and the line of them that names the cause."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from diel.worker.headline import END, headline, written

# What was written by: gcc 12, gfortran 12, GNU make 4.3, MPICH 5.0, Open MPI 4.1, LAMMPS 29Sep2021, QE 6.7, OpenJDK 17,
# LAMMPS 22Jul2025, bwa 0.7.17, samtools 1.16, perl 5.36, rustc, bash 5.2, CMake 3.25, R 4.2. Those of VASP, GROMACS, Julia, pip, conda, Slurm and torch were written after theirs.
COMPILER = """\
gcc -o a.out bad.c
bad.c: In function ‘main’:
bad.c:4:3: error: expected ‘,’ or ‘;’ before ‘printf’
    4 |   printf("%d\\n", y);
      |   ^~~~~~
make: *** [Makefile:3: a.out] Error 1
"""
GFORTRAN = """\
bad.f90:3:3:

    3 |   x = 3
      |   1
Error: Symbol ‘x’ at (1) has no IMPLICIT type
"""
LINKER = """\
/usr/bin/ld: /tmp/cczMv6F0.o: in function `main':
link.c:(.text+0x5): undefined reference to `solve'
collect2: error: ld returned 1 exit status
"""
FORTRAN = """\
At line 4 of file run.f90 (unit = 10)
Fortran runtime error: Cannot open file 'missing.dat': No such file or directory

Error termination. Backtrace:
#0  0x7fc67c6218c2 in ???
#10  0xffffffffffffffff in ???
"""
CPLUSPLUS = """\
terminate called after throwing an instance of 'std::runtime_error'
  what():  mesh has no cells
bash: line 1: 32727 Aborted                 ./throw
"""
ESPRESSO = """\
     Current dimensions of program PWSCF are:

 %%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%
     Error in routine readpp (1):
     file /usr/share/espresso/pseudo/Si.UPF not found
 %%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%

     stopping ...
"""
OPENMPI = """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD
with errorcode 1.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
"""
OPENMPI_RANK = """\
[vm:00320] *** An error occurred in MPI_Send
[vm:00320] *** reported by process [1841430529,0]
[vm:00320] *** on communicator MPI_COMM_WORLD
[vm:00320] *** MPI_ERR_RANK: invalid rank
[vm:00320] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
[vm:00320] ***    and potentially your MPI job)
[vm:00316] 1 more process has sent help message help-mpi-errors.txt / mpi_errors_are_fatal
"""
OPENMPI_PROGRAM = """\
--------------------------------------------------------------------------
mpirun.openmpi was unable to launch the specified application as it could not access
or execute an executable:

Executable: ./nosuch
Node: vm

while attempting to start process rank 0.
--------------------------------------------------------------------------
2 total processes failed to start
"""
MPICH = """\
Abort(336250886) on node 1 (rank 1 in comm 0): Fatal error in internal_Send: Invalid rank, error stack:
internal_Send(126): MPI_Send(buf=0x7ffeb86da798, count=1, MPI_INT, 77, 0, MPI_COMM_WORLD) failed
internal_Send(78).: Invalid rank has value 77 but must be nonnegative and less than 2
"""
MPICH_ABORT = """\
ERROR: the mesh has no cells
Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1
"""
MPICH_BAD = """\

===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 360 RUNNING AT vm
=   EXIT CODE: 11
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""
LAMMPS = """\
Step Temp E_pair E_mol TotEng Press
       0        1e+08   -6.3647465            0 1.4531249e+08     77499994
ERROR: Lost atoms: original 32 current 0 (src/thermo.cpp:439)
Last command: run 100
"""
LAMMPS_TABLE = """\
Loop time of 0.5 on 1 procs for 100 steps with 32 atoms

Section |  min time  |  avg time  |  max time  |%varavg| %total
Pair    | 0.00052516 | 0.00052516 | 0.00052516 |   0.0 | 83.70
Other   |            | 1.9e-05    |            |       |  3.01

Total wall time: 0:00:00
"""
PYTHON = """\
Traceback (most recent call last):
  File "/w/run.py", line 3, in <module>
    solve()
ValueError: too deep
"""
CHAINED = """\
Traceback (most recent call last):
  File "/w/run.py", line 3, in <module>
KeyError: 'mesh'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/run.py", line 5, in <module>
RuntimeError: no mesh in the input
"""
RANKED = "".join(f"[{rank}] {line}\n" for rank in (0, 1) for line in PYTHON.splitlines())
WRAPPED = f"""{COMPILER}Traceback (most recent call last):
  File "build.py", line 9, in <module>
subprocess.CalledProcessError: Command '['make']' returned non-zero exit status 2.
"""
TORCH = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/w/train.py", line 8, in <module>
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
E1123 08:00:00.000 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0
"""
JAVA = """\
Exception in thread "main" java.lang.IllegalStateException: no cells
\tat A.main(A.java:1)
Caused by: java.lang.RuntimeException: empty mesh
\tat A.main(A.java:1)
"""
VASP = """\
 -----------------------------------------------------------------------------
|     EEEEEEE  RRRRRR   RRRRRR   OOOOOOO  RRRRRR      ###     ###     ###     |
|     ERROR: charge density could not be read from file CHGCAR                |
|       ---->  I REFUSE TO CONTINUE WITH THIS SICK JOB ... BYE!!! <----       |
 -----------------------------------------------------------------------------
"""
GROMACS = """\
-------------------------------------------------------
Program:     gmx mdrun, version 2023
Source file: src/gromacs/mdlib/sim_util.cpp (line 510)

Fatal error:
Step 12: The total potential energy is nan, which is not finite.

For more information and tips for troubleshooting, please check the website
-------------------------------------------------------
"""
SLURM = """\
ERROR: cell 7 is inverted
srun: error: n1: task 0: Exited with exit code 1
srun: launch/slurm: _step_signal: Terminating StepId=7.0
"""
CMAKE = """\
CMake Error at CMakeLists.txt:3 (find_package):
  By not providing "FindNoSuch.cmake" in CMAKE_MODULE_PATH this project has

-- Configuring incomplete, errors occurred!
"""
RUST = "\nthread 'main' (1782) panicked at p.rs:1:12:\nno cells\nstack backtrace:\n   0: std::panicking\n"
BWA = """\
[E::bwa_idx_load_from_disk] fail to locate the index files
samtools sort: failed to read header from "-"
"""
SAMTOOLS = """\
[E::sam_parse1] CIGAR and query sequence are of different length
samtools view: error reading file "reads.sam"
"""
ESPRESSO_NAMELIST = """\
     Reading input from ../si.in

 %%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%
     Error in routine  read_namelists (1):
      bad line in namelist &system: "  ecutwfcc = 16" (error could be in the previous line)
 %%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%
"""
ESPRESSO_SCF = """\
     End of self-consistent calculation

     convergence NOT achieved after   1 iterations: stopping
"""
ORTE = (
    "[vm:01950] [[27488,0],0] ORTE_ERROR_LOG: Out of resource in file ../orte/util/show_help.c at line 501\n"
)
LAMMPS_DATA = """\
LAMMPS (22 Jul 2025 - Update 4)
  using 1 OpenMP thread(s) per MPI task
ERROR: Cannot open file box.data: No such file or directory (src/src/read_data.cpp:380)
Last input line: read_data box.data
                           ^^^^^^^^
"""
OPENMPI_SLOTS = """\
--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 64
slots that were requested by the application:

  pw.x
--------------------------------------------------------------------------
"""
OPENMPI_ROOT = """\
--------------------------------------------------------------------------
mpirun.openmpi has detected an attempt to run as root.

We reiterate our advice against doing so - please proceed at your own risk.
--------------------------------------------------------------------------
"""
OPENMPI_FAULT = """\
[vm:11738] *** Process received signal ***
[vm:11738] Signal: Segmentation fault (11)
[vm:11738] [ 1] ./flow(+0x11b5)[0x564bc836a1b5]
[vm:11738] *** End of error message ***
"""
R_FILE = """\
Error in file(file, "rt") : cannot open the connection
Calls: read.csv -> read.table -> file
In addition: Warning message:
In file(file, "rt") :
  cannot open file 'mesh.csv': No such file or directory
Execution halted
"""

PERL = """\
Can't locate Mesh.pm in @INC (you may need to install the Mesh module) at run.pl line 1.
BEGIN failed--compilation aborted at run.pl line 1.
"""
LUA = "lua: run.lua:1: no cells\nstack traceback:\n\t[C]: in function 'error'\n\t[C]: in ?\n"
FORTRAN_HEAP = """\
malloc(): corrupted top size

Program received signal SIGABRT: Process abort signal.

Backtrace for this error:
#0  0x7fbe91e218c2 in ???
"""
HYDRA = """\
[proxy:0@vm] HYDU_create_process (lib/utils/launch.c:73): execvp error on file ./flow (No such file or directory)
"""
ROUND = "step 1 error: 0.25\nstep 2 max error: 1e-3\n0 errors\nno more steps left\n"


@pytest.mark.parametrize(
    ("stderr", "stdout", "told"),
    [
        (COMPILER, "", "bad.c:4:3: error: expected ‘,’ or ‘;’ before ‘printf’"),
        (GFORTRAN, "", "bad.f90:3:3: Error: Symbol ‘x’ at (1) has no IMPLICIT type"),
        (LINKER, "", "link.c:(.text+0x5): undefined reference to `solve'"),
        (
            FORTRAN,
            "",
            "run.f90:4: Fortran runtime error: Cannot open file 'missing.dat': No such file or directory",
        ),
        (CPLUSPLUS, "", "what(): mesh has no cells"),
        (OPENMPI, ESPRESSO, "Error in routine readpp (1): file /usr/share/espresso/pseudo/Si.UPF not found"),
        (OPENMPI, "", "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD"),
        (OPENMPI_RANK, "", "MPI_ERR_RANK: invalid rank"),
        (
            OPENMPI_PROGRAM,
            "",
            "mpirun.openmpi was unable to launch the specified application as it could not access or execute an executable:",
        ),
        (MPICH, "", "internal_Send(78).: Invalid rank has value 77 but must be nonnegative and less than 2"),
        (MPICH_ABORT, "", "ERROR: the mesh has no cells"),
        (MPICH_BAD, LAMMPS_TABLE, "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"),
        (OPENMPI, LAMMPS, "ERROR: Lost atoms: original 32 current 0 (src/thermo.cpp:439)"),
        (PYTHON + MPICH_BAD, "", "ValueError: too deep"),
        (RANKED + OPENMPI, "", "ValueError: too deep"),
        (CHAINED, "", "RuntimeError: no mesh in the input"),
        (WRAPPED, "", "bad.c:4:3: error: expected ‘,’ or ‘;’ before ‘printf’"),
        (TORCH, "", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        (JAVA, "", "Caused by: java.lang.RuntimeException: empty mesh"),
        ("", VASP, "ERROR: charge density could not be read from file CHGCAR"),
        (GROMACS, "", "Fatal error: Step 12: The total potential energy is nan, which is not finite."),
        (SLURM, "", "ERROR: cell 7 is inverted"),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\nsrun: error: n1: task 0: Out Of Memory\n",
            "",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.",
        ),
        (
            "/w/stage.sh: line 3: pw.x: command not found\n",
            "done\n",
            "/w/stage.sh: line 3: pw.x: command not found",
        ),
        (
            "bash: line 1: 32741 Segmentation fault      ./seg\nmake: *** [Makefile:2: run] Error 139\n",
            "",
            "bash: line 1: 32741 Segmentation fault ./seg",
        ),
        (
            "make: *** No rule to make target 'mesh.bin', needed by 'all'.  Stop.\n",
            "",
            "make: *** No rule to make target 'mesh.bin', needed by 'all'. Stop.",
        ),
        (
            CMAKE,
            "",
            'CMake Error at CMakeLists.txt:3 (find_package): By not providing "FindNoSuch.cmake" in CMAKE_MODULE_PATH this project has',
        ),
        (RUST, "", "no cells (thread 'main' (1782) panicked at p.rs:1:12:)"),
        ("Error in solve(mesh) : no cells\nExecution halted\n", "", "Error in solve(mesh) : no cells"),
        (R_FILE, "", "cannot open file 'mesh.csv': No such file or directory"),
        (
            "ERROR: LoadError: UndefVarError: `x` not defined\nStacktrace:\n [1] top-level scope\n",
            "",
            "ERROR: LoadError: UndefVarError: `x` not defined",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)\n"
            "ERROR: No matching distribution found for nosuch\n",
            "",
            "ERROR: No matching distribution found for nosuch",
        ),
        (
            "\x1b[31m2026-11-23 08:00:00 ERROR solver - diverged\x1b[0m\nbye\n",
            "",
            "2026-11-23 08:00:00 ERROR solver - diverged",
        ),
        (BWA, "", "[E::bwa_idx_load_from_disk] fail to locate the index files"),
        (SAMTOOLS, "", "[E::sam_parse1] CIGAR and query sequence are of different length"),
        (
            OPENMPI_SLOTS,
            "",
            "There are not enough slots available in the system to satisfy the 64 slots that were requested by the application:",
        ),
        (OPENMPI_ROOT, "", "mpirun.openmpi has detected an attempt to run as root."),
        (OPENMPI_FAULT, "", "Signal: Segmentation fault (11)"),
        (
            PERL,
            "",
            "Can't locate Mesh.pm in @INC (you may need to install the Mesh module) at run.pl line 1.",
        ),
        (LUA, "", "lua: run.lua:1: no cells"),
        (FORTRAN_HEAP, "", "malloc(): corrupted top size"),
        (HYDRA, "", HYDRA.strip()),
        (
            "ls: unrecognized option '--depth'\nTry 'ls --help' for more information.\n",
            "",
            "ls: unrecognized option '--depth'",
        ),
        ("bash: line 1:  5469 Killed                  ./flow\n", "", "bash: line 1: 5469 Killed ./flow"),
        ("could not find a GPU, using the CPU\nSegmentation fault\n", "", "Segmentation fault"),
        (ROUND, "", "no more steps left"),
        ("", LAMMPS_TABLE, ""),
        ("so\nthat is why\n   ^~~~\n-----\n", "", "that is why"),
    ],
)
def test_the_headline_names_the_cause(stderr: str, stdout: str, told: str) -> None:
    assert headline(stderr, stdout) == told


@pytest.mark.parametrize(
    ("stderr", "file", "told"),
    [
        (OPENMPI, ESPRESSO, "Error in routine readpp (1): file /usr/share/espresso/pseudo/Si.UPF not found"),
        (
            ORTE,
            ESPRESSO_NAMELIST,
            'Error in routine read_namelists (1): bad line in namelist &system: "  ecutwfcc = 16"'
            " (error could be in the previous line)",
        ),
        ("STOP 2\n", ESPRESSO_SCF, "convergence NOT achieved after 1 iterations: stopping"),
        (
            "",
            LAMMPS_DATA,
            "ERROR: Cannot open file box.data: No such file or directory (src/src/read_data.cpp:380)",
        ),
        ("", "bash: line 1: pw.x: command not found\n", "bash: line 1: pw.x: command not found"),
        ("STOP 2\n", "\0" + ESPRESSO, "STOP 2"),
    ],
)
@pytest.mark.parametrize("command", ["pw.x > a.out", "pw.x 2>&1 >>a.out", "pw.x | tee a.out", "pw.x"])
def test_what_a_command_wrote_to_a_file_is_looked_through_too(
    tmp_path: Path, command: str, stderr: str, file: str, told: str
) -> None:
    (tmp_path / "a.out").write_text(file)
    outputs = ["a.out", "not_made"] if command == "pw.x" else []
    told = " ".join(told.split()) + ("" if told in stderr else " (in a.out)")
    assert headline(stderr, "", written(str(tmp_path), ["bash", "-c", command], outputs)) == told


def test_a_program_that_writes_much_costs_little() -> None:
    began = time.process_time()
    headline("x" * END, "an error estimate of the step is 0.1, and the next one follows\n" * (END // 64))
    assert time.process_time() - began < 1
