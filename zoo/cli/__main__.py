"""`python -m zoo.cli`, which is also how the processes of a DDP run start each other."""

import sys

from zoo.cli import main

if __name__ == "__main__":
    sys.exit(main())
