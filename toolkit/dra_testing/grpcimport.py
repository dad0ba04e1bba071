"""Import gRPC without its fork support. Import this module before any module that imports gRPC.

Tests start programs while their cluster runs. At each fork, gRPC's fork support would write a warning to standard
error, because gRPC's threads are running. The C core reads the environment variable once, when it is loaded. The
variable is removed afterwards, so child processes do not inherit it.
"""

import os

_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"

if _SUPPORT not in os.environ:
    os.environ[_SUPPORT] = "0"
    import grpc  # noqa: F401  # loads the C core, which reads the variable

    del os.environ[_SUPPORT]
