"""What all commands share: errors as one line, and the choice between a table and JSON."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from slurmcast.client import ClientError
from slurmcast.config import ConfigError
from slurmcast.times import moment

F = TypeVar("F", bound=Callable[..., Any])

BAD_REQUEST = 400
"""The daemon's status for what nobody can be answered, such as a partition that it doesn't manage."""

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


class Failure(click.ClickException):
    """Something could not be done (exit 1). What was asked for wrongly, names that aren't there too, is click's own
    UsageError (exit 2)."""

    exit_code = 1


class Finite(click.FloatRange):
    """A number in a range, which neither NaN nor infinity is ever in."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def named(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """``value``, a name if anything: an empty one is a variable that wasn't set, and doesn't stand for everybody."""
    if value is not None and not (value.strip() and value.isprintable()):
        raise click.BadParameter(f"{value!r} is no name.")
    return value


def reads(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """A callback by which an option has what ``read`` makes of its text; where that raises ValueError, it is wrong
    usage."""

    def callback(_: click.Context, __: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else read(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def time_option(name: str, meaning: str) -> Callable[[F], F]:
    """An option that has Unix seconds, given in one of :data:`slurmcast.times.FORMS`, or None."""
    return click.option(name, metavar="T", callback=reads(lambda text: moment(text, time.time())), help=meaning)


def guarded(command: F) -> F:
    """Let expected errors end a command with one line on stderr instead of a traceback."""

    @wraps(command)
    def inner(*args: Any, **kwargs: Any) -> Any:
        try:
            result = command(*args, **kwargs)
            sys.stdout.flush()
            return result
        except ClientError as error:
            if error.status == BAD_REQUEST:
                raise click.UsageError(str(error)) from None
            raise Failure(str(error)) from None
        except ConfigError as error:
            raise Failure(str(error)) from None
        except PermissionError as error:
            raise Failure(f"{error.filename}: {error.strerror}; run as root or as the user that owns it") from None
        except OSError as error:  # a full disk under what is printed, for example
            if error.errno == errno.EPIPE:
                raise  # whoever read it has seen enough, which click knows
            _give_up_output()
            where = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{where}{error.strerror or error}") from None

    return inner  # type: ignore[return-value]


def _give_up_output() -> None:
    """Send what is still to be printed to nowhere where it can't be printed, so that Python doesn't fail at it again
    when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit(value: Any, as_json: bool, table: Callable[[Any], None]) -> None:
    """Print ``value`` as JSON, or by ``table``."""
    if as_json:
        click.echo(json.dumps(value, indent=2))
    else:
        table(value)
