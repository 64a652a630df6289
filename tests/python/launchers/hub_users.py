"""docs/LAUNCHERS.md: JupyterHub. Starts a hub with the line SETTING in its configuration, two users' servers and two kernels
of each, and prints for each user the device that the server has in its environment, and those of the kernels.

A user's server is asked at its own address, so that the hub needs no proxy.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

SETTINGS = """
from jupyterhub.proxy import Proxy

class NoProxy(Proxy):
    should_start = False
    routes = {}
    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}
    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)
    async def get_all_routes(self):
        return self.routes

c = get_config()
c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.hub_port = PORT
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allowed_users = {"ana", "ben"}
c.JupyterHub.spawner_class = "simple"
c.Spawner.args = ["--allow-root"]
# The simulated node, which servers know as they know a real one.
c.Spawner.env_keep.extend(["SIM_NODE", "GETGPU_LOCK", "GETGPU_CONFIG"])
c.JupyterHub.services = [{"name": "test", "api_token": "a-token-of-this-test"}]
c.JupyterHub.load_roles = [{"name": "test", "services": ["test"],
    "scopes": ["admin:users", "admin:servers", "access:servers", "list:users"]}]
"""
TOKEN = "a-token-of-this-test"


def ask(method: str, url: str, limit: float = 60.0) -> Any:
    """The reply to a request, once the other side answers."""
    end = time.monotonic() + limit
    while True:
        request = urllib.request.Request(url, method=method, headers={"Authorization": f"token {TOKEN}"})
        if method == "POST":
            request.data = b"{}"
        try:
            with urllib.request.urlopen(request, timeout=limit) as reply:
                return json.loads(reply.read() or "null")
        except urllib.error.HTTPError as error:
            if error.code < 500 or time.monotonic() > end:
                raise
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def environments(program: str, user: str) -> list[dict[str, str]]:
    """The environment of each process of this test that runs a program for a user of the hub."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        # It may have exited, or be another user's.
        with contextlib.suppress(OSError):
            line = (place / "cmdline").read_bytes().decode(errors="replace")
            pairs = (place / "environ").read_bytes().decode(errors="replace").split("\0")
            environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            own = environment.get("SIM_NODE") == os.environ["SIM_NODE"]
            if own and program in line and environment.get("JUPYTERHUB_USER") == user:
                found.append(environment)
    return found


def until(ready: Callable[[], Any], limit: float = 120.0) -> Any:
    """What `ready` gives once that is not empty."""
    end = time.monotonic() + limit
    while not (value := ready()):
        assert time.monotonic() < end, "the hub or a server does not become ready"
        time.sleep(0.1)
    return value


def serve(api: str, user: str) -> list[str]:
    """Starts a user's server and two kernels; gives the devices of the server and of its kernels."""
    ask("POST", f"{api}/users/{user}/server")
    until(lambda: ask("GET", f"{api}/users/{user}")["servers"].get("", {}).get("ready"))
    (server,) = environments("singleuser", user)
    for _ in range(2):
        ask("POST", f"{server['JUPYTERHUB_SERVICE_URL']}api/kernels")
    kernels = until(lambda: both if len(both := environments("ipykernel_launcher", user)) == 2 else None)
    return [environment.get("CUDA_VISIBLE_DEVICES", "-") for environment in [server, *kernels]]


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pathlib.Path("config.py").write_text(SETTINGS.replace("PORT", str(port)) + os.environ["SETTING"])
    hub = subprocess.Popen([sys.executable, "-m", "jupyterhub", "-f", "config.py"], stdin=subprocess.DEVNULL)
    api = f"http://127.0.0.1:{port}/hub/api"
    try:
        ask("GET", f"{api}/users")
        for user in ("ana", "ben"):
            print(*serve(api, user))
    finally:
        hub.terminate()
        hub.wait()


if __name__ == "__main__":
    main()
