"""The scheduler's plugins, one module or package each, under their upstream names."""
