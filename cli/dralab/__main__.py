"""``python -m dralab`` is the ``dralab`` command."""

from dra_cli.main import main

if __name__ == "__main__":
    main()
