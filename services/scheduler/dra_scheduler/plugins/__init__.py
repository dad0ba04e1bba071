"""The scheduler's plugins, in one module or package each, under their upstream names."""
