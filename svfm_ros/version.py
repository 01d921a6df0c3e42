"""The version of the installed package."""

__all__ = ["version"]


def version() -> str:
    """The version as in package.xml; ``0+source`` where the package is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version("svfm_ros")
    except PackageNotFoundError:
        return "0+source"
