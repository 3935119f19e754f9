"""`oscope kernel`: kernels for guests, built from source with patches, and what is asked of a patch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oscope.cli import kernel_ab, kernel_boot, kernel_commands
from oscope.cli.errors import DONE
from oscope.cli.options import EVERYWHERE, CommandGroup, whole_number
from oscope.model.errors import UsageError

MOST_JOBS = 4096

TreeOption = Annotated[
    Path | None,
    typer.Option("--tree", metavar="DIR", help="Your own source. [default: Debian's linux-source]"),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="FRAGMENT", help="A file of CONFIG_ lines, laid over the guest's."),
]
JobsOption = Annotated[
    int | None,
    whole_number("--jobs", most=MOST_JOBS, help="Programs that make runs at a time. [default: one a CPU]"),
]

app = CommandGroup()


@app.callback(invoke_without_command=True)
def _begin(context: typer.Context) -> None:
    """Build kernels with patches, boot them in guests, and tell what a patch costs.

    What is built is kept below the cache folder, and not built again.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("source", short_help="Make the source ready.", epilog=EVERYWHERE)
def source(tree: TreeOption = None) -> int:
    """Unpack the newest /usr/src/linux-source-*.tar.xz, unless that is done, and print the folder.

    A tree of your own is only looked at.
    """
    kernel_commands.make_source_ready(tree)
    return DONE


@app.command("build", short_help="Build a kernel, unless that is done.", epilog=EVERYWHERE)
def build(
    patch: Annotated[
        list[str] | None,
        typer.Option("--patch", metavar="NAME|FILE", help="A patch; several are applied in turn."),
    ] = None,
    config: ConfigOption = None,
    debug: Annotated[bool, typer.Option("--debug", help="With debugging information.")] = False,
    padded: Annotated[
        bool, typer.Option("--padded", help="With another layout of its code, as oscope kernel ab compares.")
    ] = False,
    tree: TreeOption = None,
    jobs: JobsOption = None,
) -> int:
    """Build a kernel for guests and print its id, its name and its image.

    The first build takes minutes, one after a change of a patch seconds. Ctrl-C ends it; the next goes on.
    """
    kernel_commands.build(
        patch or [], config or [], debug=debug, padded=padded, tree=tree, jobs=_at_least_one(jobs)
    )
    return DONE


@app.command("list", short_help="List the kernels that are built.", epilog=EVERYWHERE)
def list_kernels(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
) -> int:
    """List the kernels in the cache, the newest first.

    A KERNEL is named by its id, or by the names of its patches where these are Oscope's own.
    """
    kernel_commands.show_list(as_json=as_json)
    return DONE


@app.command("check-patch", short_help="Tell whether a patch is fit.", epilog=EVERYWHERE)
def check_patch(
    patch: Annotated[str, typer.Argument(metavar="PATCH", help="The name of one of Oscope's, or a file.")],
    tree: TreeOption = None,
    jobs: JobsOption = None,
) -> int:
    """Apply a patch, have the kernel's own checkpatch.pl --strict look at it, and build a kernel with it.

    The exit code is 1 where it does not apply, where checkpatch has anything to say, or where it does not
    build.
    """
    kernel_commands.check_patch(patch, tree, _at_least_one(jobs))
    return DONE


def _at_least_one(jobs: int | None) -> int | None:
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs} is nothing", remedy="give 1 or more")
    return jobs


app.command("ab", short_help="Tell what a patch changes in an experiment.", epilog=EVERYWHERE)(kernel_ab.ab)
app.command("boot", cls=kernel_boot.BootCommand, short_help="Run a command in a guest.", epilog=EVERYWHERE)(
    kernel_boot.boot
)
