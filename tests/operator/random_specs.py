"""Random valid specs, made from the schemas of the CRDs.

A schema says types, bounds, patterns and which fields there are; what a validation rule asks on top of it is said here,
for the fields that have one. What comes out is judged by the models: a spec that breaks a rule is drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from demarkus_operator.api.check import problems
from demarkus_operator.api.crd import definitions

Schema = Mapping[str, Any]
Draw = st.SearchStrategy[Any]

MOST = 2
"""Items of a list or map: enough to tell one from several."""

WORDS = st.sampled_from(["tea", "ink", "a-b", "x" * 40])
KEYS = st.sampled_from(["team", "example.com/team", "app.example.com/name", "a_b.c"])
PATHS = st.lists(st.sampled_from(["/**", "/docs/**", "/a.md", "/docs/**/*.md", "/x?[ab]*"]), min_size=1, max_size=MOST)
SPANS = st.sampled_from(["0s", "90s", "30m", "12h", "90d"])
SECRET_KEY = st.fixed_dictionaries(
    {"name": st.sampled_from(["one", "two.three"]), "key": st.sampled_from(["a", "b.c"])}
)
BUCKETS = st.sampled_from(["gs://acme-worlds", "gs://acme-worlds/a/b.c"])
ACCOUNTS = st.just("tea-world@acme-project.iam.gserviceaccount.com")
BLOCKS = st.sampled_from(
    [
        {"cidr": "10.0.0.0/8"},
        {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.3.0/24"]},
        {"cidr": "2001:db8::/32"},
        {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]},
    ]
)
AMOUNTS = {"cpu": ["50m", "0.25", "1"], "memory": ["64Mi", "1000k", "1024Ki"], "ephemeral-storage": ["1G"]}
MORE = {"cpu": ["2", "2500m", "1.125"], "memory": ["3Gi", "2048Mi"], "ephemeral-storage": ["2Gi"]}


def amounts(of: Mapping[str, list[str]]) -> Draw:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(found) for name, found in of.items()})


def maps(values: Draw) -> Draw:
    return st.dictionaries(KEYS, values, max_size=MOST)


def entries(**more: Draw) -> Draw:
    """Access entries: each names somebody."""
    words = st.lists(st.sampled_from(["tea", "Größe", "x" * 253]), min_size=1, max_size=MOST)
    return st.fixed_dictionaries(
        {"groups": words},
        optional={
            "emails": st.just(["Rosa@example.com"]),
            "domains": st.just(["example.com"]),
            "claims": st.dictionaries(st.sampled_from(["team", "x"]), words, min_size=1, max_size=MOST),
            **more,
        },
    )


def few(item: Draw, *, by: str | None = None) -> Draw:
    return st.lists(item, max_size=MOST, unique_by=(lambda one: one[by]) if by else None)


REQUIREMENTS = st.one_of(
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.just(["tea", ""])},
    ),
)
SELECTORS = st.fixed_dictionaries({}, optional={"matchLabels": maps(WORDS), "matchExpressions": few(REQUIREMENTS)})
PEERS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"ipBlock": BLOCKS}),
        st.fixed_dictionaries({"podSelector": SELECTORS}, optional={"namespaceSelector": SELECTORS}),
        st.fixed_dictionaries({"namespaceSelector": SELECTORS}),
    ),
    min_size=1,
    max_size=MOST,
)
PORTS = st.lists(
    st.sampled_from(
        [
            {"protocol": "TCP", "port": 8081},
            {"protocol": "UDP", "port": 1, "endPort": 65535},
            {"protocol": "TCP", "port": 9, "endPort": 9},
        ]
    ),
    min_size=1,
    max_size=MOST,
    unique_by=str,
)
TOLERATIONS = st.one_of(
    st.fixed_dictionaries({"operator": st.just("Exists")}, optional={"key": KEYS, "effect": st.just("NoSchedule")}),
    st.fixed_dictionaries({"operator": st.just("Equal"), "key": KEYS}, optional={"value": WORDS}),
    st.just({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}),
)
SPREADS = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 5),
        "topologyKey": st.sampled_from(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    }
)
SEEDS = st.one_of(
    st.fixed_dictionaries({"path": st.sampled_from(["/index.md", "/a b/c.md"]), "text": st.sampled_from(["x", "ä\n"])}),
    st.fixed_dictionaries({"path": st.just("/ref.md"), "configMapKeyRef": SECRET_KEY}),
    st.just({"path": "/.well-known/agent-manifest.md"}),
)
CLIENT = {
    "clientID": st.sampled_from(["chat", "Code_1"]),
    "name": WORDS,
    "redirectURIs": st.just(["https://chat.example.com/callback"]),
}
CLIENTS = st.one_of(
    st.fixed_dictionaries({**CLIENT, "secretHash": st.just("0" * 64)}),
    st.fixed_dictionaries({**CLIENT, "secretRef": SECRET_KEY}),
)
VOLUMES = st.fixed_dictionaries(
    {"size": st.sampled_from(["64Mi", "1024Mi", "3Gi", "2T"])}, optional={"storageClassName": st.just("fast")}
)
IN_BUCKETS = st.fixed_dictionaries(
    {"url": BUCKETS},
    optional={"serviceAccount": ACCOUNTS, "replicas": st.integers(1, 3), "historyID": st.just("0" * 32)},
)

# By the end of a field's path; the longest that fits counts.
SAID: Mapping[str, Draw] = {
    "spec.store": st.one_of(
        VOLUMES.map(lambda volume: {"volume": volume}), IN_BUCKETS.map(lambda bucket: {"bucket": bucket})
    ),
    "access.readers": few(entries(paths=PATHS)),
    "access.writers": few(entries(paths=PATHS, operations=st.just(["append", "review"]))),
    "identity.rules": few(entries()),
    "paths": PATHS,
    "policy.allowedValues": st.dictionaries(WORDS, st.just(["draft", "final"]), min_size=1, max_size=MOST),
    "policy.requireTags": few(WORDS),
    "spec.seed": few(SEEDS, by="path"),
    "keepFor": SPANS,
    "grace": SPANS,
    "revalidate": SPANS,
    "maxLogin": SPANS,
    "delay": SPANS,
    "rotateEvery": st.sampled_from(["24h", "90d"]),
    "requestTimeout": st.sampled_from(["500ms", "10s", "10m"]),
    "spec.tokens.name": st.from_regex(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True),
    "spec.tokenFiles": few(SECRET_KEY, by="name").map(lambda keys: [{"secretRef": key} for key in keys]),
    "annotations": maps(st.sampled_from(["", "x", "any text: {}"])),
    "labels": maps(WORDS),
    "nodeSelector": maps(WORDS),
    "matchLabels": maps(WORDS),
    "matchExpressions": few(REQUIREMENTS),
    "resources": st.fixed_dictionaries({}, optional={"requests": amounts(AMOUNTS), "limits": amounts(MORE)}),
    "tolerations": few(TOLERATIONS),
    "topologySpreadConstraints": few(SPREADS, by="topologyKey"),
    "networkPolicy.ingress": few(st.fixed_dictionaries({}, optional={"from": PEERS, "ports": PORTS})),
    "networkPolicy.egress": few(st.fixed_dictionaries({}, optional={"to": PEERS, "ports": PORTS})),
    "publicURL": st.sampled_from(["https://mark.example.com", "https://mark:8443"]),
    "issuer": st.sampled_from(["https://accounts.example.com", "https://login.example.com/tenant/v2.0"]),
    "clientSecretRef": SECRET_KEY,
    "broker.replicas": st.integers(1, 5),
    "broker.ingress": st.one_of(
        st.fixed_dictionaries({}, optional={"className": WORDS, "tlsSecretName": WORDS, "annotations": maps(WORDS)}),
        st.just({"gateway": {"name": "public", "sectionName": "https"}}),
    ),
    "broker.webClients": few(CLIENTS, by="clientID"),
    "broker.state": st.one_of(
        st.just({"kubernetes": {"namespace": "logins"}}),
        st.fixed_dictionaries({"url": BUCKETS}, optional={"serviceAccount": ACCOUNTS}).map(lambda gcs: {"gcs": gcs}),
        st.just({"directory": {"claimName": "logins"}}),
    ),
}


def specs(kind: str, *, without: tuple[str, ...] = ()) -> Draw:
    """Specs of a World or Universe that the API server would take, without some top-level fields."""
    (definition,) = [found for found in definitions().values() if found["spec"]["names"]["kind"] == kind]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    properties = {name: one for name, one in schema["properties"].items() if name not in without}
    drawn = _values({**schema, "properties": properties}, "spec")
    return drawn.filter(lambda spec: problems(_object(kind, spec)) == ())


def _object(kind: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": "demarkus.io/v1alpha1", "kind": kind, "metadata": {"name": "tea"}, "spec": spec}


def _values(schema: Schema, path: str) -> Draw:
    said = [found for end, found in SAID.items() if path == end or path.endswith(f".{end}")]
    if said:
        return said[-1]
    match schema["type"]:
        case "object" if "properties" in schema:
            required = set(schema.get("required", ()))
            fields = {name: _values(child, f"{path}.{name}") for name, child in schema["properties"].items()}
            return st.fixed_dictionaries(
                {name: fields[name] for name in sorted(required)},
                optional={name: field for name, field in fields.items() if name not in required},
            )
        case "array":
            keys = schema.get("x-kubernetes-list-map-keys")
            unique: Callable[[Any], Any] | None = None
            if keys:
                unique = lambda item: tuple(item[key] for key in keys)  # noqa: E731
            elif schema["items"]["type"] == "string":
                unique = str
            items = _values(schema["items"], path)
            return st.lists(items, min_size=schema.get("minItems", 0), max_size=MOST, unique_by=unique)
        case "integer":
            return st.integers(schema.get("minimum", 0), min(schema.get("maximum", 1000), 100000))
        case "boolean":
            return st.booleans()
        case "string":
            return _texts(schema)
    raise AssertionError(f"{path}: {schema['type']} has to be told of here")


def _texts(schema: Schema) -> Draw:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    least, most = schema.get("minLength", 0), min(schema["maxLength"], 60)
    if "pattern" in schema:
        pattern = schema["pattern"].removeprefix("^").removesuffix("$")
        alphabet = st.characters(codec="ascii", exclude_categories=("Cc",))
        drawn = st.from_regex(pattern, fullmatch=True, alphabet=alphabet)
        return drawn.filter(lambda text: least <= len(text) <= schema["maxLength"])
    return st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), min_size=least, max_size=most)


def made_by_others(spec: Any, namespace: str) -> list[dict[str, Any]]:
    """The Secrets and ConfigMaps that a spec names."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for kind, name, key in _referred(spec):
        found.setdefault((kind, name), {})[key] = "eA==" if kind == "Secret" else "x"
    return [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "data": data}
        for (kind, name), data in found.items()
    ]


def _referred(spec: Any) -> Iterator[tuple[str, str, str]]:
    """Kind, name and key of everything in a spec that somebody else makes."""
    if isinstance(spec, dict):
        for name, value in spec.items():
            if name in ("secretRef", "clientSecretRef"):
                yield "Secret", value["name"], value["key"]
            elif name == "configMapKeyRef":
                yield "ConfigMap", value["name"], value["key"]
            else:
                yield from _referred(value)
    elif isinstance(spec, list):
        for item in spec:
            yield from _referred(item)
