"""`python -m abstain` is the command `abstain`."""

from abstain.cli import main

if __name__ == "__main__":
    main()
