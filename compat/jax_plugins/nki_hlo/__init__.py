"""JAX finds the simulated device here; it is registered only when the environment asks for it."""


def initialize() -> None:
    """Called by JAX before it starts its backends."""
    from neff.device.activation import jax_is_asked

    if jax_is_asked():
        from neff.device.frameworks.jax_plugin import register

        register()
