"""`python -m abstain` runs the command line."""

from abstain.cli import main

if __name__ == "__main__":
    main()
