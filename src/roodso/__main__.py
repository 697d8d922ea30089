"""``python -m roodso`` is the command ``roodso``."""

from roodso.cli import main

if __name__ == "__main__":
    main()
