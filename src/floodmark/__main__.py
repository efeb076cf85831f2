"""`python -m floodmark` is the same as the command `floodmark`."""

from floodmark.cli.main import main

if __name__ == "__main__":
    main()
