"""The package's version, read from where it was installed."""

__all__ = ["version"]


def version() -> str:
    """As in package.xml; ``0+source`` when run from a tree that was never installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version("svfm_ros")
    except PackageNotFoundError:
        return "0+source"
