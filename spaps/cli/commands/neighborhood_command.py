"""``spaps neighborhood`` adds, lists, shows and removes named neighborhoods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from schemas.errors import SettingsError
from schemas.settings import NO_REDIS, Settings, load_settings
from spaps.cli.neighborhood_input import DescriptorArgument, read_descriptor
from spaps.cli.options import ConfigOption, PlainCommand, RedisOption, WorldOption, command_group
from spaps.cli.output import (
    plain_table,
    print_remark,
    print_result,
    print_warning,
    printable,
    printable_json,
    results,
)

if TYPE_CHECKING:  # at run time only when the command runs
    from redis_link.connection.client import RedisClient
    from spaps.cli.named_members import NamedMembers

NameArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="1 to 64 letters, digits, '_', '.' or '-'.")
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, each neighborhood on a line.")
]

neighborhood = command_group("Manage named neighborhoods, which clients subscribe to as @NAME.")


@neighborhood.command("add", cls=PlainCommand)
def add(
    name: NameArgument,
    descriptor: DescriptorArgument,
    *,
    world: WorldOption = None,
    redis: RedisOption = None,
    config: ConfigOption = None,
) -> None:
    """Give a neighborhood a name, or give a name another neighborhood.

    Subscriptions that use the name change with it, and their clients are told.
    """
    from redis_link.registry.named_neighborhoods import add_name, users_of
    from schemas.named_neighborhood import checked_name
    from spaps.cli.named_members import WorldOfNames

    checked_name(name)
    wanted = read_descriptor(descriptor)
    settings = load_settings(config, {"world.dir": world, "redis.url": redis})
    with _redis(settings, makes_one=True) as client:
        place = WorldOfNames(settings.world.dir, client, is_needed=world is not None)
        # No reference exists: clients could not subscribe to it.
        resolved = place.resolve(wanted)
        # Afterwards brokers register each user anew, beside the old registration.
        users = users_of(client, name)
        is_new = add_name(client, name, resolved.neighborhood)
    for warning in resolved.warnings:
        print_warning(warning)
    size = resolved.members
    members = "" if size is None else f": {_many(size, 'entity', 'entities')} {place.where}"
    used = "" if is_new or not users else f", for {_many(users, 'subscription', 'subscriptions')}"
    print_result(f"neighborhood {name} {'added' if is_new else 'changed'}{used}{members}")


@neighborhood.command("list", cls=PlainCommand)
def list_names(
    *,
    as_json: JsonOption = False,
    world: WorldOption = None,
    redis: RedisOption = None,
    config: ConfigOption = None,
) -> None:
    """List all named neighborhoods with their numbers of members and users."""
    settings = load_settings(config, {"world.dir": world, "redis.url": redis})
    from spaps.cli.named_members import named_members

    with _redis(settings) as client:
        found = named_members(client, settings.world.dir, world_is_needed=world is not None)
    if as_json:
        for one in found:
            typer.echo(printable_json(one.as_json(with_peids=False)))
    elif found:
        _print_table(found)
    else:
        print_remark("no neighborhood has a name: 'spaps neighborhood add NAME DESCRIPTOR'")


@neighborhood.command("show", cls=PlainCommand)
def show(
    name: NameArgument,
    *,
    as_json: JsonOption = False,
    world: WorldOption = None,
    redis: RedisOption = None,
    config: ConfigOption = None,
) -> None:
    """Show what a name stands for, in words, with its members and users."""
    from schemas.language.explain import explain
    from spaps.cli.named_members import named_members

    settings = load_settings(config, {"world.dir": world, "redis.url": redis})
    with _redis(settings) as client:
        (one,) = named_members(client, settings.world.dir, name, world_is_needed=world is not None)
    if as_json:
        typer.echo(printable_json(one.as_json(with_peids=True)))
        return
    print_result(f"{one.name}: {one.notation}")
    for sentence in explain(one.neighborhood):
        print_result(f"  {sentence}")
    members = "unknown: no world here" if one.peids is None else f"{len(one.peids):,} {one.where}"
    print_result(f"members: {members}")
    print_result(f"users: {_many(one.users, 'subscription', 'subscriptions')}")
    print_result(f"changed: {one.changed_at}")


@neighborhood.command("remove", cls=PlainCommand)
def remove(
    name: NameArgument,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Remove it even if subscriptions use it; they hold nothing then."
        ),
    ] = False,
    world: WorldOption = None,
    redis: RedisOption = None,
    config: ConfigOption = None,
) -> None:
    """Remove a name that no subscription uses."""
    from redis_link.registry.named_neighborhoods import remove_name

    settings = load_settings(config, {"world.dir": world, "redis.url": redis})
    with _redis(settings) as client:
        users = remove_name(client, name, forced=force)
    left = f": {_many(users, 'subscription', 'subscriptions')} without members" if users else ""
    print_result(f"neighborhood {name} removed{left}")


@contextmanager
def _redis(settings: Settings, *, makes_one: bool = False) -> Iterator[RedisClient]:
    """Connect to the Redis of the settings; ``makes_one``: start the embedded one if need be."""
    from redis_link.connection.client import connect
    from redis_link.connection.redis_choice import redis_or_embedded, redis_or_empty

    if settings.redis.url == NO_REDIS:
        raise SettingsError("named neighborhoods are kept in Redis, and redis.url is none")
    choice = redis_or_embedded if makes_one else redis_or_empty
    with choice(settings) as url, closing(connect(url)) as client:
        yield client


def _many(count: int, one: str, more: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {more}"


def _print_table(found: list[NamedMembers]) -> None:
    from rich.text import Text

    table = plain_table()
    table.add_column("name", overflow="fold")
    table.add_column("members", justify="right", no_wrap=True)
    table.add_column("users", justify="right", no_wrap=True)
    table.add_column("neighborhood", overflow="fold", style="dim")
    for one in found:
        members = "?" if one.peids is None else f"{len(one.peids):,}"
        table.add_row(one.name, members, f"{one.users:,}", Text(printable(one.notation)))
    results().print(table)
