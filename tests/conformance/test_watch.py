"""Mark protocol 4.8 and 10: WATCH."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.answers import Answer, parse
from tests.conformance.server import CURSOR, Server, content_hash
from tests.conformance.wire import Stream

rule = pytest.mark.rule


class Watch:
    """An open watch; blocks are read one by one, the acknowledgement is read already."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.first = parse(stream.block())

    def event(self) -> dict[str, str]:
        """The next event."""
        return Server.event(self._stream)

    def events(self, count: int) -> list[tuple[str, str, str]]:
        """The next events as op, last segment of the path, version."""
        found = [self.event() for _ in range(count)]
        return [(event["op"], event["path"].rpartition("/")[2], event["version"]) for event in found]

    def close(self) -> None:
        self._stream.cancel()


class Watches:
    """Opens watches, and gives them up in the end."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._opened: list[Watch] = []

    def __call__(self, path: str, **options: str) -> Watch:
        watch = Watch(self._server.watch(path, **options))
        if watch.first.status == "ok":
            self._opened.append(watch)
        return watch

    def close(self) -> None:
        """Gives them up."""
        for watch in self._opened:
            watch.close()


@pytest.fixture
def watch(server: Server) -> Iterator[Watches]:
    """Opens watches: `watch(path, ...)`."""
    watches = Watches(server)
    yield watches
    watches.close()


def refusal(server: Server, path: str, **metadata: str) -> Answer:
    """The whole answer to a watch that is refused."""
    return parse(server.watch(path, **metadata).whole())


class TestRequest:
    @rule("10.1", "scopes")
    def test_a_slash_at_the_end_asks_for_a_subtree(self, server: Server, place: str, watch: Watches) -> None:
        subtree, document, world = watch(f"{place}/docs/"), watch(f"{place}/docs"), watch(f"{place}/docs/a.md")
        server.publish(f"{place}/docs/a.md", b"1")
        server.publish(f"{place}/docs/b.md", b"1")
        server.publish(f"{place}/docsx/c.md", b"1")
        server.publish(f"{place}/docs/deep/d.md", b"1")
        server.publish(f"{place}/docs/a.md", b"2")
        expected = [
            ("publish", "a.md", "1"),
            ("publish", "b.md", "1"),
            ("publish", "d.md", "1"),
            ("publish", "a.md", "2"),
        ]
        assert subtree.events(4) == expected
        assert world.events(2) == [expected[0], expected[3]]
        # A path without a slash is one document: nothing below it is told.
        again = watch(f"{place}/docs", since=document.first.meta["cursor"])
        assert again.first.status == "ok"

    @rule("10.1", "scopes")
    def test_the_whole_world_may_be_watched(self, server: Server, place: str, watch: Watches) -> None:
        if server.profile.reads != "public":
            server.cannot("the suite has no token to read everything")
        world = watch("/")
        server.publish(f"{place}/a.md")
        while (event := world.event())["path"] != f"{place}/a.md":
            pass
        assert event["op"] == "publish"

    @rule("10.1", "scopes")
    def test_the_canonical_path_is_watched(self, server: Server, place: str, watch: Watches) -> None:
        watched = watch(f"/{place}//./sub//")
        assert watched.first.status == "ok"
        server.publish(f"{place}/sub/a.md")
        assert watched.event()["path"] == f"{place}/sub/a.md"

    @rule("10.1", "refusals")
    def test_refusals_are_ordinary_answers(self, server: Server, place: str) -> None:
        answer = refusal(server, f"/{content_hash(b'tea')}")
        assert answer.status == "bad-request"
        for since in (
            "x",
            "x:",
            ":1",
            "x:01",
            "x:-1",
            "x:1.0",
            "a b:1",
            "é:1",
            "x" * 65 + ":1",
            "x:18446744073709551616",
        ):
            answer = refusal(server, f"{place}/", since=since)
            assert (answer.status, answer.message) == ("bad-request", "invalid since cursor"), since
        for coalesce in ("x", "PATH", "true"):
            assert refusal(server, f"{place}/", coalesce=coalesce).status == "bad-request"
        assert refusal(server, f"{place}/../").message == f"{place}/../ not found"

    @rule("10.1", "refusals")
    def test_a_watch_needs_the_right_to_read(self, server: Server) -> None:
        vault = server.place("vault")
        assert refusal(server, f"{vault}/", role="").message == "authentication required"
        assert refusal(server, f"{vault}/a.md", role="star").message == "insufficient permissions"


class TestEvents:
    @rule("10.2", "acknowledgement")
    @rule("10.3", "cursor-form")
    def test_the_first_block_acknowledges(self, place: str, watch: Watches) -> None:
        first = watch(f"{place}/").first
        assert (first.status, set(first.meta), first.body) == ("ok", {"cursor"}, b"")
        assert CURSOR.fullmatch(first.meta["cursor"])

    @rule("10.2", "events")
    def test_an_event_tells_of_a_change(self, server: Server, place: str, watch: Watches) -> None:
        watched = watch(f"{place}/")
        body = b"# Tea\n"
        server.publish(f"{place}/a.md", body, agent="kettle/1.0", user="ada")
        event = watched.event()
        expected = {
            "path": f"{place}/a.md",
            "version": "1",
            "op": "publish",
            "hash": content_hash(body),
            "agent": "kettle/1.0",
        }
        assert {key: event.get(key) for key in expected} == expected
        assert event.get("user", "ada") == "ada"
        server.reads("yes" if "user" in event else "no", of="16: events have `user`")
        server.publish(f"{place}/b.md")
        assert not {"agent", "user"} & watched.event().keys()

    @rule("10.4", "order")
    def test_events_come_in_the_order_of_the_writes(self, server: Server, place: str, watch: Watches) -> None:
        watched = watch(f"{place}/")
        for number in range(1, 21):
            server.publish(f"{place}/{number % 3}.md", b"%d" % number)
        found = [watched.event() for _ in range(20)]
        assert [event["hash"] for event in found] == [content_hash(b"%d" % number) for number in range(1, 21)]
        numbers = [int(event["cursor"].rpartition(":")[2]) for event in found]
        assert numbers == sorted(set(numbers))
        assert len({event["cursor"].rpartition(":")[0] for event in found}) == 1

    @rule("10.4", "ops")
    @rule("10.4", "silent")
    def test_every_kind_of_write(self, server: Server, place: str, watch: Watches) -> None:
        path = f"{place}/a.md"
        watched = watch(path)
        server.publish(path, b"1")
        assert server.ask("PUBLISH", path, b"1").status == "ok"
        server.append(path, b"2", expected=1)
        server.archive(path)
        server.archive(path)
        assert server.ask("PUBLISH", path, b"").status == "ok"
        assert server.ask("PUBLISH", path, b"").status == "ok"
        assert server.ask("PUBLISH", path, b"x", expected_version="9").status == "conflict"
        server.publish(path, b"3")
        assert watched.events(5) == [
            ("publish", "a.md", "1"),
            ("append", "a.md", "2"),
            ("archive", "a.md", "2"),
            ("publish", "a.md", "2"),
            ("publish", "a.md", "3"),
        ]

    @rule("10.4", "filtered")
    def test_what_may_not_be_read_is_not_told(self, server: Server, watch: Watches) -> None:
        if server.profile.reads != "public":
            server.cannot("every read of this server needs a token, so no subtree is open beside a private one")
        secret, place = server.place("vault"), server.place()
        base = f"{server.profile.base}/"
        everyone, reader = watch(base, role=""), watch(base, role="reader")
        server.publish(f"{secret}/a.md", role="vault")
        server.publish(f"{place}/b.md")
        assert everyone.events(1) == [("publish", "b.md", "1")]
        assert reader.events(2) == [("publish", "a.md", "1"), ("publish", "b.md", "1")]


class TestResume:
    @rule("10.3", "resume")
    def test_a_watch_goes_on_behind_a_cursor(self, server: Server, place: str, watch: Watches) -> None:
        first = watch(f"{place}/")
        for number in range(4):
            server.publish(f"{place}/{number}.md")
        cursors = [first.first.meta["cursor"], *(first.event()["cursor"] for _ in range(4))]
        for index, cursor in enumerate(cursors):
            again = watch(f"{place}/", since=cursor)
            assert again.first.status == "ok"
            assert again.first.meta["cursor"] == cursor
            expected = [("publish", f"{number}.md", "1") for number in range(index, 4)]
            assert again.events(4 - index) == expected
            again.close()
            watch._opened.remove(again)

    @rule("10.3", "resume")
    def test_only_the_newest_of_a_path_may_be_asked_for(self, server: Server, place: str, watch: Watches) -> None:
        cursor = watch(f"{place}/").first.meta["cursor"]
        for number in range(1, 6):
            server.publish(f"{place}/a.md", b"%d" % number)
        server.publish(f"{place}/b.md")
        watched = watch(f"{place}/", since=cursor, coalesce="path")
        seen = [watched.event()]
        while seen[-1]["path"] != f"{place}/b.md":
            seen.append(watched.event())
        versions = [int(event["version"]) for event in seen[:-1]]
        assert versions == sorted(set(versions))
        assert versions[-1] == 5

    @rule("10.4", "resync")
    def test_what_can_not_go_on_is_resync(self, server: Server, place: str, watch: Watches) -> None:
        head = watch(f"{place}/").first.meta["cursor"]
        epoch, _, number = head.rpartition(":")
        for since in (f"{'0' * len(epoch)}x:1", f"{epoch}:{int(number) + 1_000_000}"):
            answer = refusal(server, f"{place}/", since=since)
            assert answer.status == "resync"
            assert answer.body == b""
            assert CURSOR.fullmatch(answer.meta["cursor"])
            assert watch(f"{place}/", since=answer.meta["cursor"]).first.status == "ok"


class TestLimits:
    @rule("10.1", "limits")
    def test_too_many_watches_of_one_connection_are_refused(self, server: Server, place: str) -> None:
        """Half the streams of a connection may be watches; the other half goes on."""
        connection = server.another_connection()
        try:
            for count in range(1, 65):
                stream = server.watch(f"{place}/", on=connection)
                first = parse(stream.block())
                if first.status != "ok":
                    assert stream.whole() == b""
                    assert first.raw == b"---\nstatus: rate-limited\n---\n"
                    server.reads(str(count - 1), of="10.1: watches that one connection may have")
                    break
            else:
                server.cannot("64 watches of one connection are no limit")
            assert parse(connection.exchange(b"FETCH /health\n")).status == "ok"
            assert parse(server.watch(f"{place}/").block()).status == "ok"
        finally:
            connection.close()
