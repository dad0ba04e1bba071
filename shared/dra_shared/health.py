"""Check that a service is ready, for health checks of containers: ``python3 -m dra_shared.health URL``."""

import sys
import urllib.request


def main() -> None:
    """Exit with 0 if the URL in the only argument returns success."""
    try:
        urllib.request.urlopen(sys.argv[1]).close()
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
