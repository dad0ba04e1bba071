"""Imports gRPC without what it does at a fork: import this before what imports it.

Tests start programs while their cluster runs. At each fork gRPC would write to standard error that it leaves the fork
alone, as its threads are at work. Its C core reads the variable once, when it is loaded; children do not get it.
"""

import os

_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"

if _SUPPORT not in os.environ:
    os.environ[_SUPPORT] = "0"
    import grpc  # noqa: F401  # loads the C core, which reads the variable

    del os.environ[_SUPPORT]
