"""ARCHIVE (Mark protocol 4.5): takes a document out of listings; no version is made and no byte changes."""

from __future__ import annotations

from demarkus_world.authority import Operation
from demarkus_world.engine.engine import Write
from demarkus_world.verbs.call import Call
from demarkus_world.verbs.writes import authorise, check_storable, commit
from mark_protocol.response import Response
from mark_protocol.status import ARCHIVING_NEEDS_TOKENS, Status


async def archive(call: Call) -> Response:
    """Answers an ARCHIVE; repeating it changes nothing."""
    credential = authorise(call, Operation.ARCHIVE, unconfigured=ARCHIVING_NEEDS_TOKENS)
    check_storable(call)
    write = Write(op="archive", path=call.path, by=credential.label, credential=credential.kind)
    written = await commit(call, write)
    return Response(Status.OK, {"archived": "true", "version": str(written.version)})
