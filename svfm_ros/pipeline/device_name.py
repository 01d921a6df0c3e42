"""Where a model may run, told before torch is loaded: that takes seconds, and most people say auto or cpu."""

__all__ = ["device_name"]


def device_name(name: str) -> str:
    """The name, if there is such a device; refused otherwise."""
    if name in ("auto", "cpu"):
        return name
    from svfm_ros.svfm.torch_device import pick_device

    return str(pick_device(name))
