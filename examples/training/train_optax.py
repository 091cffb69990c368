"""JAX and optax: a pure loss under jit and grad, with a warm-up from cross-entropy."""

import jax
import optax

import abstain
from abstain.jax import aurc_loss, linear_warmup


def predict(params, x):
    return jax.nn.relu(x @ params["in"]) @ params["out"]


def main(steps: int = 120) -> float:
    normal = jax.random.normal
    keys = jax.random.split(jax.random.key(0), 5)
    y = jax.random.randint(keys[0], (1100,), 0, 3)
    x = normal(keys[1], (3, 8))[y] + normal(keys[2], (1100, 8))
    params = {"in": normal(keys[3], (8, 32)) * 0.3, "out": normal(keys[4], (32, 3)) * 0.2}
    optimiser, mix = optax.adam(1e-2), linear_warmup(40)
    state = optimiser.init(params)

    @jax.jit
    def step(params, state, x, y, count):
        grads = jax.grad(lambda p: aurc_loss(predict(p, x), y, mix=mix(count)))(params)
        updates, state = optimiser.update(grads, state)
        return optax.apply_updates(params, updates), state

    for count in range(steps):
        part = slice(64 * (count % 9), 64 * (count % 9 + 1))
        params, state = step(params, state, x[part], y[part], count)
    logits = predict(params, x[600:])
    validation_aurc = abstain.aurc(
        abstain.losses.zero_one(logits, y[600:]), abstain.scores.max_softmax(logits)
    )
    print(f"validation AURC {float(validation_aurc):.4f}")
    return float(validation_aurc)


if __name__ == "__main__":
    main()
