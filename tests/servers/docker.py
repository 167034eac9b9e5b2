"""Servers in containers, where a Docker engine answers.

Whether the `docker` command exists says nothing; only a ping of the engine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.servers.process import Unavailable


@dataclass(frozen=True, kw_only=True)
class Container:
    """A running container and the address of the one port it publishes."""

    host: str
    port: int
    remove: Callable[[], None]

    def wait(self, answer: Callable[[], str], errors: type[Exception], seconds: float = 90) -> str:
        """What the server in it answers, as soon as it does."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return answer()
            except errors as error:
                if time.monotonic() > deadline:
                    self.remove()
                    raise Unavailable(f"the container did not answer within {seconds:.0f} s ({error})") from error
            time.sleep(0.2)


def run(image: str, *, port: int, environment: Mapping[str, str], command: Sequence[str], missing: str) -> Container:
    """Start the image; without Docker, say what was missing before Docker was tried."""
    import docker
    from docker.errors import DockerException
    from testcontainers.core.container import DockerContainer

    try:
        docker.from_env().ping()
    except DockerException as error:
        raise Unavailable(f"{missing}, and no Docker engine answers") from error
    container = DockerContainer(image).with_exposed_ports(port).with_command(list(command))
    for name, value in environment.items():
        container = container.with_env(name, value)
    try:
        container.start()
        host, published = container.get_container_host_ip(), int(container.get_exposed_port(port))
    except (DockerException, OSError) as error:
        container.stop()
        raise Unavailable(f"Docker could not run {image}: {error}") from error
    return Container(host=host, port=published, remove=container.stop)
