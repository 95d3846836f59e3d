"""Starts the server that workers are forked from: `python -m diel.worker CONTROLLER SOCKET`.

CONTROLLER is the process that starts this one, SOCKET the number of an open socket on which it asks.
"""

import os
import sys
from socket import socket

from diel.worker.die_with_parent import tie


def main() -> None:
    """Serve to the end. It asks the kernel about the controller before the slow imports, not after."""
    controller = int(sys.argv[1])
    if tie(controller):
        from diel.worker.server import Server  # slow

        Server(controller, socket(fileno=int(sys.argv[2]))).run()
    os._exit(0)


if __name__ == "__main__":
    main()
