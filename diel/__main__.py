"""`python -m diel` is `diel`."""

from diel.cli import main

if __name__ == "__main__":
    main()
