"""What the tests of several packages share: stand-ins, builders of objects, waiting, and the reference material."""
