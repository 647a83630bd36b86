"""The login of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.errors import InvalidInput
from duckanon.server import wire
from duckanon.server.errors import LOGIN_FAILED, PgError
from duckanon.server.scram import Exchange, LoginFailed
from duckanon.server.stream import Stream
from duckanon.server.tls import Tls
from duckanon.server.users import User

if TYPE_CHECKING:
    from duckanon.server.service import Service


async def log_in(service: Service, stream: Stream, tls: Tls | None, name: str) -> User:
    """The user, once the client has proved that it knows the password. Raises PgError.

    tls: the certificate of the connection, if it is encrypted.

    The last message of the exchange is sent: it proves that the server knows the verifier.
    """
    try:
        users = await service.light_work(service.users.read)
        binding = tls.end_point if tls is not None and stream.is_encrypted else None
        exchange = Exchange(users.verifier(name), binding, known=name in users.users)
        await stream.write(wire.authentication_sasl(exchange.mechanisms))
        mechanism, first = wire.sasl_initial(await _password(stream))
        await stream.write(wire.authentication_continue(exchange.first(mechanism, first)))
        last = await _password(stream)
        async with service.tries.turn(stream.peer, name):
            try:
                final = exchange.final(last)
            except LoginFailed:
                # It is logged now, since the connection may be closed before the client gets the answer.
                service.log.write("login failed", user=name[:63], peer=stream.peer)
                raise
    except LoginFailed:
        raise PgError(*LOGIN_FAILED) from None
    except InvalidInput as error:
        service.log.write("login failed", user=name[:63], peer=stream.peer, reason=str(error))
        raise PgError(*LOGIN_FAILED) from None
    await stream.write(wire.authentication_final(final))
    user = users.users[name]
    service.log.write("login", user=name, role=user.role, peer=stream.peer)
    return user


async def _password(stream: Stream) -> bytes:
    header = await stream.read(5)
    body = await stream.read(wire.body_length(header[1:], wire.LONGEST_SASL))
    message = wire.message(header[:1], body)
    if not isinstance(message, wire.Password):
        raise wire.FrameError("a password was asked for, and something else was sent")
    return message.body
