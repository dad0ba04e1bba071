"""Programs that are shell scripts of our own: what images' behaviour is made of."""

from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.world import Process, Program


def scripted(text: str) -> Program:
    """A program that does what the script says; ``$0`` is its name, ``$1`` its first argument.

    Its traps are heeded: whatever started it, it gets the container's SIGTERM.
    """

    async def program(process: Process) -> int:
        world = process.shell.world
        shell = Shell(
            world,
            process.env,
            process.out,
            process.err,
            name=process.argv[0],
            arguments=process.argv[1:],
        )
        shell.directory = process.shell.directory
        world.signalled.append(shell)
        try:
            return await shell.run(text)
        finally:
            world.signalled.remove(shell)

    return program
