"""A JAX script with an NKI kernel in a function and in its gradient."""

import jax
import jax.numpy as jnp
from tensor_add import tensor_add


@jax.custom_vjp
def add(a, b):
    return tensor_add(a, b)


add.defvjp(lambda a, b: (add(a, b), None), lambda _, upstream: (upstream, upstream))


@jax.jit
def value_and_gradients(a, b):
    def loss(a, b):
        return (add(a, b) * a * b).sum()

    return jax.value_and_grad(loss, argnums=(0, 1))(a, b)


if __name__ == "__main__":
    key_a, key_b = jax.random.split(jax.random.PRNGKey(0))
    a = jax.random.normal(key_a, (256, 1024), dtype=jnp.float32)
    b = jax.random.normal(key_b, (256, 1024), dtype=jnp.float32)
    value, (gradient_a, gradient_b) = value_and_gradients(a, b)
    error = jnp.abs(gradient_a - (2 * a * b + b * b)).max()
    print("loss:", float(value), "largest error of the gradient:", float(error))
