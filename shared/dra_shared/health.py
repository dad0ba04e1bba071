"""Whether a service is ready, as containers' health checks ask: ``python3 -m dra_shared.health URL``."""

import sys
import urllib.request


def main() -> None:
    """End with 0 if the URL given as the only argument answers that all is well."""
    try:
        urllib.request.urlopen(sys.argv[1]).close()
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
