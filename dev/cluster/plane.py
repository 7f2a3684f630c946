"""A Kubernetes control plane as child processes on loopback: etcd, kube-apiserver, kube-controller-manager.

    with ControlPlane(binary) as plane:
        plane.kubectl("get", "namespaces")

There is no scheduler and no node: StatefulSets make Pod objects, and nothing runs them. Everything lives in one
temporary folder and ends with the thread that started it; on Linux also when that thread's process is killed. The
folder that is left then is removed by the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from dev.cluster.pki import Authority, write_key_pair, write_private

HOST = "127.0.0.1"
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/16"
FOLDER_PREFIX = "demarkus-plane-"
START_SECONDS = 120.0
STOP_SECONDS = 15.0
PR_SET_PDEATHSIG = 1

AUDIT_POLICY = {
    # Every call of a service account or a person, once, when it is answered; not the control plane's own.
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
    "rules": [
        {"level": "None", "users": ["system:apiserver", "system:kube-controller-manager"]},
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "None", "nonResourceURLs": ["/*"]},
        {"level": "Metadata"},
    ],
}


class PlaneError(Exception):
    """The control plane did not start, or a program of it ended; the message carries the end of its log."""


def free_port() -> int:
    """A TCP port on loopback that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def die_with_starter() -> Callable[[], None] | None:
    """What a child calls before it becomes another program, so that the kernel kills it when its starter dies."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return ask


def sweep_leftovers() -> None:
    """Removes folders of control planes whose starter was killed: those whose lock nobody holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError), (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


class ControlPlane:
    """One control plane; a context manager. Not shared between threads."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        sweep_leftovers()
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        # Locked before it has its name: a sweep in between would take the folder for one that was left.
        self._lock = (self.folder / "lock.new").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.folder / "lock.new").rename(self.folder / "lock")
        self.port = free_port()
        self.url = f"https://{HOST}:{self.port}"
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self.audit_log = self.folder / "audit.log"
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- starting

    def _start(self) -> None:
        self._write_material()
        self._run("etcd", self._etcd_arguments())
        self._run("kube-apiserver", self._apiserver_arguments())
        # The controller manager gives up when the API server is not healthy within 10 s, so it comes after.
        self.wait_ready()
        self._run("kube-controller-manager", self._controller_manager_arguments())

    def _write_material(self) -> None:
        self.authority = Authority(self.folder / "pki")
        service = [f"kubernetes{tail}" for tail in ("", ".default", ".default.svc", ".default.svc.cluster.local")]
        first_service_address = SERVICES.split("/")[0].removesuffix(".0") + ".1"
        self.authority.issue(
            "apiserver", user="kube-apiserver", names=[HOST, "localhost", first_service_address, *service]
        )
        self.authority.issue("admin", user="admin", groups=["system:masters"])
        self.authority.issue("controllers", user="system:kube-controller-manager")
        write_key_pair(self._pki("tokens.key"), self._pki("tokens.pub"))
        self._write_certificate_kubeconfig(self.kubeconfig, "admin")
        self._write_certificate_kubeconfig(self.folder / "controllers.kubeconfig", "controllers")
        (self.folder / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))

    def _pki(self, name: str) -> Path:
        return self.folder / "pki" / name

    def _write_certificate_kubeconfig(self, path: Path, name: str) -> None:
        user = {"client-certificate": str(self._pki(f"{name}.crt")), "client-key": str(self._pki(f"{name}.key"))}
        self.write_kubeconfig(path, user)

    def write_kubeconfig(self, path: Path, user: dict[str, str], *, server: str | None = None) -> None:
        """A kubeconfig for this control plane with the given `user` entry (client certificate or token).

        `server`: another way there, over plain HTTP.
        """
        direct = {"server": self.url, "certificate-authority": str(self.authority.certificate)}
        cluster = direct if server is None else {"server": server}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "plane",
            "clusters": [{"name": "plane", "cluster": cluster}],
            "users": [{"name": "plane", "user": user}],
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "plane"}}],
        }
        write_private(path, json.dumps(config).encode())

    @property
    def _etcd_socket(self) -> str:
        return f"unix://{self.folder}/etcd.sock"

    def _etcd_arguments(self) -> list[str]:
        peer = f"http://{HOST}:{free_port()}"
        return [
            "--name=plane",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={self._etcd_socket}",
            "--advertise-client-urls=http://localhost:2379",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=plane={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver_arguments(self) -> list[str]:
        return [
            f"--etcd-servers={self._etcd_socket}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            f"--secure-port={self.port}",
            f"--service-cluster-ip-range={SERVICES}",
            f"--client-ca-file={self._pki('ca.crt')}",
            f"--tls-cert-file={self._pki('apiserver.crt')}",
            f"--tls-private-key-file={self._pki('apiserver.key')}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._pki('tokens.pub')}",
            f"--service-account-signing-key-file={self._pki('tokens.key')}",
            f"--audit-policy-file={self.folder}/audit-policy.json",
            f"--audit-log-path={self.audit_log}",
            "--endpoint-reconciler-type=none",  # a loopback address is no endpoint
            "--profiling=false",
            "--shutdown-delay-duration=0s",
        ]

    def _controller_manager_arguments(self) -> list[str]:
        return [
            f"--kubeconfig={self.folder}/controllers.kubeconfig",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self._pki('tokens.key')}",
            f"--root-ca-file={self.authority.certificate}",
            f"--cluster-signing-cert-file={self.authority.certificate}",
            f"--cluster-signing-key-file={self._pki('ca.key')}",
            f"--cluster-cidr={PODS}",
            f"--service-cluster-ip-range={SERVICES}",
            "--allocate-node-cidrs=true",
            "--profiling=false",
        ]

    def restart_apiserver(self) -> None:
        """Ends the API server in the middle of everything and starts it anew; `wait_ready` waits for it.

        Belongs to the thread that started the control plane.
        """
        process = self._programs["kube-apiserver"]
        process.kill()
        process.wait()
        self._run("kube-apiserver", self._apiserver_arguments())

    def _run(self, program: str, arguments: list[str]) -> None:
        with self._log(program).open("ab") as log:
            self._programs[program] = subprocess.Popen(
                [self.binary, program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for us: we stop them in order
                preexec_fn=die_with_starter(),
            )

    def _log(self, program: str) -> Path:
        return self.folder / f"{program}.log"

    def wait_ready(self) -> None:
        """Waits until the API server answers. Raises `PlaneError`."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(self._pki("admin.crt"), self._pki("admin.key"))
        deadline = time.monotonic() + START_SECONDS
        answer = "nothing"
        while time.monotonic() < deadline:
            self.check()
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", context=context, timeout=5):
                    return
            except (OSError, urllib.error.URLError) as error:
                answer = str(error)
            time.sleep(0.1)
        raise PlaneError(f"kube-apiserver is not ready after {START_SECONDS:.0f} s; last answer: {answer}")

    def check(self) -> None:
        """Raises `PlaneError` when a program of the control plane has ended."""
        for program, process in self._programs.items():
            if process.poll() is not None:
                tail = self._log(program).read_text(errors="replace")[-2000:]
                raise PlaneError(f"{program} ended with status {process.returncode}; its log ends:\n{tail}")

    # -- use

    def kubectl(
        self, *arguments: str, input: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as an administrator. With `check`, raises `PlaneError` when it fails."""
        command = [str(self.binary), "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        environment = {**os.environ, "HOME": str(self.folder)}  # kubectl's discovery cache goes with the folder
        done = subprocess.run(command, input=input, text=True, capture_output=True, timeout=120, env=environment)
        if check and done.returncode:
            raise PlaneError(f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done

    def audit(self) -> list[dict[str, Any]]:
        """The calls of people and service accounts that were answered so far, oldest first (audit.k8s.io/v1 Events)."""
        lines = self.audit_log.read_text().splitlines(keepends=True) if self.audit_log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    # -- stopping

    def stop(self) -> None:
        """Ends the programs, the last started first, and removes the folder."""
        for process in reversed(self._programs.values()):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._programs.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def main() -> None:
    """Runs a control plane until Ctrl-C and says how to reach it."""
    from dev.cluster.build import build

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), ControlPlane(build()) as plane:
        print(f"export KUBECONFIG={plane.kubeconfig}\nalias kubectl='{plane.binary} kubectl'", flush=True)
        while True:
            plane.check()
            time.sleep(1)


if __name__ == "__main__":
    main()
