"""``python -m kvcliff`` is the command ``kvcliff``."""

from kvcliff.cli import main

if __name__ == "__main__":
    main()
