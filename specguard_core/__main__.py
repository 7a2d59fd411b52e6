"""`python -m specguard_core`: the command line of cli.py."""

import os
import sys

from specguard_core.cli import main

if __name__ == "__main__":
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`| head`): give Python's last flush somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
