"""What commands that ask a cluster share: which cluster, which namespace, and what the operator there is like."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from demarkus_operator.cli.options import Failure
from demarkus_operator.cluster.access import NoAccess, configuration, home_namespace
from demarkus_operator.cluster.kinds import DEPLOYMENT
from demarkus_operator.cluster.kubernetes import Kubernetes
from demarkus_operator.cluster.port import Port, PortError
from demarkus_operator.plan import labels
from demarkus_operator.plan.objects import Manifest
from demarkus_operator.plan.site import API_SERVER_PORT, Images, Site

OPERATOR_NAMESPACE = "demarkus-system"
PLUGIN = "kubectl-demarkus"
"""The name under which kubectl calls us, as `kubectl demarkus`."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster, and where in it."""

    kubeconfig: str | None
    context: str | None
    given_namespace: str | None
    all_namespaces: bool

    @property
    def namespace(self) -> str:
        """The namespace that is meant, as kubectl takes it."""
        return self.given_namespace or home_namespace(kubeconfig=self.kubeconfig, context=self.context)

    @contextlib.asynccontextmanager
    async def port(self) -> AsyncIterator[Port]:
        """The cluster. Raises Failure."""
        try:
            found = await configuration(kubeconfig=self.kubeconfig, context=self.context)
        except NoAccess as error:
            raise Failure(str(error)) from error
        async with Kubernetes(found) as port:
            yield port


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options; the command gets them as `place`."""

    @click.option("--kubeconfig", metavar="FILE", help="The kubeconfig. Default: as kubectl finds it.")
    @click.option("--context", metavar="NAME", help="The kubeconfig's context. Default: the current one.")
    @click.option("-n", "--namespace", help="The namespace. Default: the context's.")
    @click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")
    @wraps(command)
    def wrapped(
        *arguments: Any,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        all_namespaces: bool,
        **others: Any,
    ) -> None:
        place = Place(
            kubeconfig=kubeconfig,
            context=context,
            given_namespace=namespace,
            all_namespaces=all_namespaces,
        )
        command(*arguments, place=place, **others)

    return wrapped


operator_namespace_option = click.option(
    "--operator-namespace", default=OPERATOR_NAMESPACE, show_default=True, help="Where the cluster's operator runs."
)


def asked_for_cluster() -> bool:
    """Whether commands that can look at this machine or at a cluster look at a cluster by default."""
    return click.get_current_context().find_root().info_name == PLUGIN


def run(asking: Awaitable[T]) -> T:
    """Runs something that asks a cluster. Raises Failure with what the cluster said."""

    async def ask() -> T:
        try:
            return await asking
        except PortError as error:
            raise Failure(str(error)) from error

    return asyncio.run(ask())


async def site_of(port: Port, namespace: str) -> Site:
    """The surroundings of the operator in this namespace; without one, those of an operator of our version."""
    version = importlib.metadata.version("demarkus")
    found = await port.list(
        DEPLOYMENT.api_version, DEPLOYMENT.kind, namespace=namespace, labels={labels.NAME: labels.OPERATOR_APP}
    )
    if not found:
        return Site(operator_namespace=namespace, version=version)
    given = dict(_arguments(found[0]))
    digests = {which: given[f"--{which}-digest"] for which in ("world", "broker") if given.get(f"--{which}-digest")}
    images = Images(
        world=given.get("--world-image", Images().world),
        broker=given.get("--broker-image", Images().broker),
        digests=digests,
        pull_secrets=tuple(value for name, value in _arguments(found[0]) if name == "--image-pull-secret"),
    )
    version = found[0]["metadata"]["labels"].get(labels.APP_VERSION, version)
    api_server_port = int(given.get("--api-server-port", API_SERVER_PORT))
    return Site(operator_namespace=namespace, version=version, images=images, api_server_port=api_server_port)


def _arguments(deployment: Manifest) -> list[tuple[str, str]]:
    (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
    return [(name, value) for name, _, value in (one.partition("=") for one in container.get("args", ()))]
