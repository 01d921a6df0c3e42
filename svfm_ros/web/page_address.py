"""Address of a page: host, port and, where others can reach it, a token."""

import ipaddress
import secrets
import socket

__all__ = ["free_port", "is_loopback", "page_address", "page_token"]

_MOST_TRIED = 50


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_port(host: str, first: int) -> int:
    """The first port from ``first`` on that nobody listens on; ``first`` where none is free or the host is wrong."""
    for port in range(first, first + _MOST_TRIED):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((host, port))
            except OSError:
                continue
            return port
    return first


def page_token(host: str) -> str:
    """A random token for an address that others can reach; empty for the loopback interface."""
    return "" if is_loopback(host) else secrets.token_urlsafe(16)


def page_address(host: str, port: int, token: str) -> str:
    """The URL to open in a browser."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
