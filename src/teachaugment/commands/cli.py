"""The command ``teachaugment``: finds the command that is asked for, and turns what goes wrong into an exit code.

Only the module of that command is imported, and the overview of ``teachaugment --help`` imports none.
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from teachaugment import __version__
from teachaugment.commands import COMMANDS
from teachaugment.commands.freed_memory import keep_freed_memory
from teachaugment.commands.parser import Parser, flag_meant, spelling
from teachaugment.errors import UserError, unforeseen
from teachaugment.terminal import NobodyReads, escaped, flush, open_streams, say

OVERVIEW = """\
examples:
  teachaugment demo                                 with and without its augmentation, side by side, in minutes
  teachaugment train                                train a small network on generated images, in minutes
  teachaugment train --data photos --epochs 100     train on your own folder of images
  teachaugment train cifar10-wrn-28-10              an experiment of the paper, by the name of its preset
  teachaugment train --help                         every setting
  teachaugment models, teachaugment presets         what there is by name
  teachaugment evaluate runs/RUN                    accuracy of a finished run
  teachaugment predict runs/RUN photos              class and probability of new images
  teachaugment linear runs/RUN                      accuracy of a linear classifier on its features
  teachaugment compare --data photos --seeds 5      does it help on your images? Strategies side by side
  teachaugment report runs/RUN                      what it learned, on one page; several runs are compared
  teachaugment export runs/RUN                      what was learned, as files to take along
  teachaugment export runs/RUN --target onnx        the trained network, to deploy
  teachaugment preview runs/RUN cat.jpg             your images beside what was learned makes of them
  teachaugment explore runs/RUN                     the same on a page, with sliders
  teachaugment paper                                the paper's tables and figures, measured
  teachaugment bench                                what it costs on this machine
"""


def overview_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser of the whole command, and one for each command that has its name and no flags yet."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="teachaugment",
        description="Learns the data augmentation while a vision model trains.",
        epilog=OVERVIEW,
        formatter_class=formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"teachaugment {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    return parser, {
        name: commands.add_parser(name, help=entry.help, formatter_class=formatter, allow_abbrev=False)
        for name, entry in COMMANDS.items()
    }


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The flags of the command that is asked for, whose name is in ``command``."""
    parser, commands = overview_parser()
    if not argv:
        parser.print_help()
        raise SystemExit(0)
    if not argv[0].startswith("-"):
        COMMANDS.check(argv[0])
    asked = next((word for word in argv if word in COMMANDS), None)
    if asked is not None:
        module = COMMANDS.load(asked)
        commands[asked].epilog, commands[asked].usage = module.EXAMPLES, getattr(module, "USAGE", None)
        module.add_arguments(commands[asked])
    arguments, rest = parser.parse_known_args([spelling(word) for word in argv])
    if rest or arguments.command is None:
        raise UserError(unexpected(rest, arguments.command, commands.get(arguments.command, parser)))
    return arguments


def unexpected(rest: Sequence[str], command: str | None, parser: argparse.ArgumentParser) -> str:
    """One line about words that no flag of the command takes."""
    help = f"see {f'teachaugment {command}' if command else 'teachaugment'} --help"
    flags = [word.partition("=")[0] for word in rest if word.startswith("-")]
    if not flags:
        return f"unexpected argument {rest[0]!r}; {help}" if rest else f"no command; {help}"
    known = [name for name in parser._option_string_actions if name.startswith("--")]
    close = flag_meant(flags[0], known)
    return f"unknown flag {flags[0]}{f'; did you mean {close!r}?' if close else f'; {help}'}"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, 1 where images were left out (predict), 2 after a mistake, 141 where nobody reads what is
    printed, and 128 more than its number after a signal: 130 after Ctrl-C, 143 after SIGTERM."""
    words = sys.argv[1:] if argv is None else list(argv)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*decompression bomb")  # Pillow's: such an image is refused by name
        warnings.formatwarning = lambda message, *_, **__: f"teachaugment: warning: {escaped(message)}\n"
        try:
            arguments = parse(words)
            return COMMANDS.load(arguments.command).run(arguments)
        except UserError as error:
            say(f"teachaugment: error: {' '.join(str(error).splitlines())}")
            return 2
        except NobodyReads:
            return 141
        except KeyboardInterrupt:
            say("teachaugment: interrupted")
            return 130
        except Exception as error:
            say(f"teachaugment: error: {unforeseen(error, ' '.join(['teachaugment', *words[:1]]))}")
            return 2


def entry() -> NoReturn:
    """The command as a process of its own. It ends when it has said all: a thread that still reads, or one of torch's
    that connects several processes, must neither keep it nor end it badly."""
    code = 1
    try:
        open_streams()
        keep_freed_memory()
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        code = 130
    finally:
        atexit._run_exitfuncs()
        flush()
        os._exit(code)
