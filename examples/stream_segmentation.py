"""Stream a segmentation model: millions of pixels, one tile at a time, in constant memory.

Data: a photograph of a flower that comes with scikit-learn (273,280 pixels). The task is to separate the petals from
the background. The labels come from the colours (red well above green); the model sees only the grey picture. It is
trained on the left half and tested on the right half, tile by tile.
"""

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.ensemble import RandomForestClassifier

import abstain
from abstain.engines import Sketch

RADIUS = 4  # the model sees a window of 9 x 9 grey pixels around each pixel


def read_windows(grey: np.ndarray) -> np.ndarray:
    """For each pixel, 9 of the grey values in its window, every fourth row and column."""
    padded = np.pad(grey, RADIUS, mode="reflect")
    views = np.lib.stride_tricks.sliding_window_view(padded, (2 * RADIUS + 1, 2 * RADIUS + 1))
    return views[:, :, ::4, ::4].reshape(*grey.shape, -1)


def main() -> Sketch:
    photo = load_sample_image("flower.jpg").astype(np.float32)
    petal = (photo[..., 0] > photo[..., 1] + 30).astype(int)
    features = read_windows(photo.mean(axis=-1))
    half = photo.shape[1] // 2
    train_pixels = np.random.default_rng(0).permutation(photo.shape[0] * half)[:5_000]
    train_features = features[:, :half].reshape(-1, features.shape[-1])[train_pixels]
    model = RandomForestClassifier(20, max_depth=12, random_state=0)
    model.fit(train_features, petal[:, :half].reshape(-1)[train_pixels])

    sketch = Sketch(size=100_000)  # bytes, for any number of photographs
    for top in range(0, photo.shape[0], 64):
        tile = features[top : top + 64, half:]
        probs = model.predict_proba(tile.reshape(-1, tile.shape[-1]))
        labels = petal[top : top + 64, half:].reshape(-1)
        loss = abstain.losses.zero_one(probs=probs, labels=labels)
        sketch.update(loss, abstain.scores.max_softmax(probs=probs))
    print(f"{sketch.n:,} pixels, summary of {len(sketch.to_bytes()):,} bytes")
    print("AURC ", sketch.aurc())
    print("AUGRC", sketch.augrc())
    print("Neighbouring pixels are not independent: for an error bar, pass whole pictures as clusters.")
    return sketch


if __name__ == "__main__":
    main()
