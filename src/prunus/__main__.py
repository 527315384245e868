"""`python -m prunus`."""

from prunus.cli.app import main

if __name__ == "__main__":
    main()
