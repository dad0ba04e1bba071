"""Programs that are shell scripts. The behaviour of images consists of these."""

from dra_node_agent.runtime.shell.interpreter import Shell
from dra_node_agent.runtime.shell.world import Process, Program


def script_program(text: str) -> Program:
    """Return a program that runs the script. ``$0`` is its name, ``$1`` its first argument.

    Its traps take effect: it gets the SIGTERM of the container, whatever started it.
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
