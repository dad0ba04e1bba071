"""The checks of the suite. Each module has the checks of one area."""
