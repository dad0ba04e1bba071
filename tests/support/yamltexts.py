"""YAML documents that are small as text and large or deep as values."""


def bomb(levels: int, fan: int) -> bytes:
    """Return lists of aliases of lists of aliases: ``fan`` to the power of ``levels`` strings."""
    lists = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * fan)}]" for level in range(1, levels)]
    return "\n".join(["a0: &a0 [lol]", *lists]).encode()


def chain(length: int) -> bytes:
    """Return lists each of which contains the previous one: shallow as text, deep as a value."""
    links = [f"a{index}: &a{index} [*a{index - 1}]" for index in range(1, length)]
    return "\n".join(["a0: &a0 [x]", *links]).encode()
