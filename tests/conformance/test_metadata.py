"""Mark protocol 6: metadata keys."""

from __future__ import annotations

import pytest

from tests.conformance.server import Server

rule = pytest.mark.rule

RESERVED = [
    "version", "modified", "etag", "content-hash", "current-version", "server-version", "your-version", "total",
    "current", "chain-valid", "chain-error", "archived", "entries", "matches", "match", "status",
]  # fmt: skip

POLICY = "/.well-known/demarkus/policy.md"


def refused(server: Server, path: str, body: bytes = b"x", **metadata: str) -> str:
    """The message of a PUBLISH that has to be refused for its metadata."""
    answer = server.ask("PUBLISH", path, body, **metadata)
    assert answer.status == "bad-request", answer
    assert server.ask("VERSIONS", path).status == "not-found"
    return answer.message


class TestKeys:
    @rule("6.1", "control-keys")
    def test_control_keys_are_never_stored(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"x", expected_version="0", if_none_match="a b", if_modified_since="now")
        assert set(server.fetch(path).meta) == {"content-hash", "etag", "modified", "type", "version"}
        server.append(path, b"y", expected=1, if_none_match="a")
        assert "if-none-match" not in server.fetch(path).meta

    @rule("6.1", "reserved-keys")
    @pytest.mark.parametrize("key", RESERVED)
    def test_keys_of_answers_are_reserved(self, server: Server, place: str, key: str) -> None:
        assert refused(server, f"{place}/a.md", **{key: "x"}) == f'metadata key "{key}" is reserved'
        server.publish(f"{place}/b.md")
        answer = server.ask("APPEND", f"{place}/b.md", b"x", expected_version="1", **{key: ""})
        assert (answer.status, answer.message) == ("bad-request", f'metadata key "{key}" is reserved')

    @rule("6.1", "store-keys")
    def test_keys_of_the_store_are_reserved(self, server: Server, place: str) -> None:
        expected = 'invalid publisher metadata: key "previous-hash" is reserved by the store'
        assert refused(server, f"{place}/a.md", previous_hash="x") == expected

    @rule("6.1", "free-keys")
    def test_names_of_parameters_are_ordinary_metadata(self, server: Server, place: str) -> None:
        words = ["complete", "next-cursor", "cursor", "page-size", "query", "limit", "filter", "since", "op", "hash"]
        words += ["coalesce", "include-archived"]
        server.publish(f"{place}/a.md", **{word: f"a {word}" for word in words})
        meta = server.fetch(f"{place}/a.md").meta
        assert {word: meta[word] for word in words} == {word: f"a {word}" for word in words}
        assert server.ask("LIST", place).meta["complete"] == "true"

    @rule("6.1", "identity-keys")
    def test_agent_and_user_are_stored_as_they_come(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", agent="kettle/1.0", user="Ada Lovelace")
        meta = server.fetch(f"{place}/a.md").meta
        assert (meta["agent"], meta["user"]) == ("kettle/1.0", "Ada Lovelace")

    @rule("6.1", "relations")
    def test_relations_are_ordinary_metadata(self, server: Server, place: str) -> None:
        server.publish(f"{place}/a.md", rel_source="b.md, mark://h/c.md", rel_="x")
        meta = server.fetch(f"{place}/a.md").meta
        assert (meta["rel-source"], meta["rel-"]) == ("b.md, mark://h/c.md", "x")


class TestValidation:
    @rule("6.2", "key-characters")
    @pytest.mark.parametrize("key", ["Colour", "a_b", "a.b", "a b", "é", "a/b", "", "X-Y", "a:b", "🍵"])
    def test_keys_have_few_characters(self, server: Server, place: str, key: str) -> None:
        sent = f'PUBLISH {place}/a.md\n---\nauth: {server.token("full")}\n"{key}": x\n---\nx'
        answer = server.send(sent.encode())
        assert (answer.status, answer.message) == (
            "bad-request",
            f'metadata key "{key}" contains invalid characters',
        )

    @rule("6.2", "key-characters")
    def test_letters_digits_and_hyphens_are_fine(self, server: Server, place: str) -> None:
        keys = ["a", "0", "-", "a-b-1", "9z", "--", "null", "true"]
        sent = "".join(f'"{key}": x\n' for key in keys)
        head = f"PUBLISH {place}/a.md\n---\nauth: {server.token('full')}\n{sent}---\nx"
        assert server.send(head.encode()).status == "created"
        assert set(keys) <= set(server.fetch(f"{place}/a.md").meta)

    @rule("6.2", "one-line")
    @pytest.mark.parametrize("value", ["a\nb", "a\rb", "\n", "a\r\n"])
    def test_values_are_one_line(self, server: Server, place: str, value: str) -> None:
        assert refused(server, f"{place}/a.md", colour=value) == 'metadata value for key "colour" contains newlines'

    @rule("6.2", "utf-8-values")
    def test_values_are_utf_8(self, server: Server, place: str) -> None:
        """YAML has one way to send other bytes."""
        head = f"PUBLISH {place}/a.md\n---\nauth: {server.token('full')}\ncolour: !!binary /w==\n---\nx"
        answer = server.send(head.encode())
        assert answer.status == "bad-request"
        assert answer.message in ('metadata value for key "colour" contains newlines', "bad request")
        server.publish(f"{place}/b.md", b"x", colour="é\u2028\U0001f375\t")
        assert server.fetch(f"{place}/b.md").meta["colour"] == "é\u2028\U0001f375\t"

    @rule("6.2", "at-most-50")
    def test_at_most_50_keys(self, server: Server, place: str) -> None:
        def keys(count: int) -> dict[str, str]:
            return {f"k{number}": "x" for number in range(count)}

        server.publish(f"{place}/a.md", **keys(49))
        server.publish(f"{place}/b.md", **keys(49), type="Note", if_none_match="not counted")
        expected = "too many metadata keys (max 50)"
        # With the type that is put in, fifty keys are fifty-one.
        assert refused(server, f"{place}/c.md", **keys(50)) == f"invalid publisher metadata: {expected}"
        assert refused(server, f"{place}/d.md", **keys(51)) == expected
        server.publish(f"{place}/index.md", **keys(50))

    @rule("6.2", "at-most-1024")
    def test_at_most_1024_bytes(self, server: Server, place: str) -> None:
        def text(size: int) -> str:
            return ("tea " * 300)[: size - 1] + "."

        expected = "metadata too large (max 1024 bytes)"
        server.publish(f"{place}/index.md", k=text(1023))
        assert refused(server, f"{place}/log.md", k=text(1024)) == expected
        # The type that is put in counts twelve bytes.
        server.publish(f"{place}/a.md", k=text(1011))
        assert refused(server, f"{place}/b.md", k=text(1012)) == f"invalid publisher metadata: {expected}"
        assert refused(server, f"{place}/c.md", k=text(1024)) == expected
        # Bytes are counted, not characters; tags as the list that is stored: [a, b].
        assert refused(server, f"{place}/d.md", k="é" * 512) == expected
        server.publish(f"{place}/sub/index.md", tags="a,b", k=text(1024 - 1 - len("tags[a, b]")))
        answer = server.ask("PUBLISH", f"{place}/sub/log.md", b"x", tags="a,b", k=text(1024 - len("tags[a, b]")))
        assert (answer.status, answer.message) == ("bad-request", expected)


class TestType:
    @rule("6.4", "default-type")
    def test_a_document_without_a_type_is_a_document(self, server: Server, place: str) -> None:
        for name, metadata in (("a.md", {}), ("b.md", {"type": ""}), ("c.md", {"type": "  "})):
            server.publish(f"{place}/{name}", b"x", **metadata)
            assert server.fetch(f"{place}/{name}").meta["type"] == "Document"
        server.publish(f"{place}/d.md", b"x", type="Note")
        assert server.fetch(f"{place}/d.md").meta["type"] == "Note"

    @rule("6.4", "not-for-index-and-log")
    @pytest.mark.parametrize("name", ["index.md", "log.md", "sub/index.md"])
    def test_an_index_and_a_log_are_none(self, server: Server, place: str, name: str) -> None:
        server.publish(f"{place}/{name}", b"x")
        assert "type" not in server.fetch(f"{place}/{name}").meta
        server.append(f"{place}/{name}", b"y", expected=1)
        assert "type" not in server.fetch(f"{place}/{name}").meta
        server.publish(f"{place}/x-{name.rpartition('/')[2]}", b"x")
        assert server.fetch(f"{place}/x-{name.rpartition('/')[2]}").meta["type"] == "Document"


class TestRetention:
    @staticmethod
    def retained(server: Server, path: str) -> list[int]:
        """The versions that are still there, checked one by one."""
        answer = server.ask("VERSIONS", path)
        numbers = [n for n in range(1, int(answer.meta["current"]) + 1) if f"/v{n}) - " in answer.text]
        assert answer.meta["total"] == str(len(numbers))
        assert answer.meta["chain-valid"] == "true"
        for number in range(1, int(answer.meta["current"]) + 1):
            expected = "ok" if number in numbers else "not-found"
            assert server.ask("FETCH", f"{path}/v{number}").status == expected
        return numbers

    @rule("6.5", "prunes")
    @rule("6.5", "kept")
    @rule("7.1", "versions")
    @rule("7.3", "pruned-chain")
    def test_the_newest_versions_are_left(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        for number in range(1, 5):
            server.publish(path, b"%d" % number)
        server.publish(path, b"5", retention="3")
        assert self.retained(server, path) == [3, 4, 5]
        assert server.fetch(path).meta["retention"] == "3"
        server.publish(path, b"6", retention="1")
        assert self.retained(server, path) == [6]
        assert server.publish(path, b"7").meta["version"] == "7"

    @rule("6.5", "not-inherited")
    def test_later_writes_without_the_key_prune_nothing(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1", retention="1")
        server.append(path, b"2", expected=1)
        assert "retention" not in server.fetch(path).meta
        server.publish(path, b"3")
        assert self.retained(server, path) == [1, 2, 3]

    @rule("6.5", "values")
    def test_values(self, server: Server, place: str) -> None:
        for value in ("0", "-1", "x", "", "1.5", " 1", "99999999999999999999"):
            expected = f'invalid publisher metadata: key "retention" must be a positive integer, got "{value}"'
            assert refused(server, f"{place}/a.md", retention=value) == expected
        for value in ("+2", "02", "2147483647"):
            assert server.publish(f"{place}/a.md", value.encode(), retention=value).status == "created"
            assert server.fetch(f"{place}/a.md").meta["retention"] == value

    @rule("6.5", "prunes")
    def test_where_pruning_is_a_right_of_its_own_it_takes_it(self, server: Server, place: str) -> None:
        path = f"{place}/a.md"
        server.publish(path, b"1")
        answer = server.ask("PUBLISH", path, b"2", role="writer", retention="1")
        if server.profile.history == "compatible":
            assert answer.status == "created"
            assert self.retained(server, path) == [2]
        else:
            assert answer.status in ("not-permitted", "created")
            assert self.retained(server, path) == ([1] if answer.status == "not-permitted" else [1, 2])


class TestPolicy:
    @rule("6.6", "policy")
    def test_a_policy_blocks_or_warns(self, server: Server, place: str) -> None:
        if not server.profile.alone:
            server.cannot("a policy is for a whole server, and this one holds more than the suite's documents")

        def policy(strictness: str) -> None:
            text = f"# Policy\n\n  strictness: {strictness}\nrequire_tags: area team\nrequire_fields: owner, type\n"
            answer = server.ask("PUBLISH", POLICY, text.encode(), tags="area:x,team:y", owner="me")
            assert answer.status in ("created", "ok"), answer

        policy("block")
        try:
            answer = server.ask("PUBLISH", f"{place}/a.md", b"x", importance="high")
            if not server.profile.policy:
                assert answer.status == "created"
                return
            assert answer.status == "bad-request"
            assert answer.message == (
                "publish policy (block) refused this write:\n- missing-tags\n- invalid-importance\n"
                "- missing-tag-axis: area\n- missing-tag-axis: team\n- missing-field: owner\n"
            )
            some = server.ask("PUBLISH", f"{place}/a.md", b"x", tags="area:a", owner="me")
            assert some.message == "publish policy (block) refused this write:\n- missing-tag-axis: team\n"
            server.publish(f"{place}/a.md", b"x", tags="area:a,team:b", owner="me")
            # What was there before the policy is judged at its next write, and after conflict and change.
            assert server.ask("PUBLISH", f"{place}/a.md", b"y", expected_version="7").status == "conflict"
            policy("warn")
            server.publish(f"{place}/b.md", b"x")
        finally:
            policy("warn")
            server.archive(POLICY)
