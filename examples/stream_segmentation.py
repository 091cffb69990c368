"""Stream a segmentation model: millions of pixels, one tile at a time, in constant memory.

Data: scikit-learn's bundled photograph of a flower (273,280 pixels). The task is real if homely: tell the petals from
the background. Truth is taken from the colours (red well above green); the model sees a grey picture only. It
learns from the left half and is judged on the right half, tile by tile.
"""

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.ensemble import RandomForestClassifier

import abstain
from abstain.engines import Sketch

REACH = 4  # the model sees a window of 9 x 9 grey pixels


def windows(grey: np.ndarray) -> np.ndarray:
    """For each pixel its grey neighbourhood, thinned to 9 numbers."""
    padded = np.pad(grey, REACH, mode="reflect")
    views = np.lib.stride_tricks.sliding_window_view(padded, (2 * REACH + 1, 2 * REACH + 1))
    return views[:, :, ::4, ::4].reshape(*grey.shape, -1)


def main() -> Sketch:
    photo = load_sample_image("flower.jpg").astype(np.float32)
    petal = (photo[..., 0] > photo[..., 1] + 30).astype(int)
    features, half = windows(photo.mean(axis=-1)), photo.shape[1] // 2
    some = np.random.default_rng(0).permutation(photo.shape[0] * half)[:5_000]
    model = RandomForestClassifier(20, max_depth=12, random_state=0)
    model.fit(features[:, :half].reshape(-1, features.shape[-1])[some], petal[:, :half].reshape(-1)[some])

    sketch = Sketch(size=100_000)  # bytes; it would not grow with a thousand photographs
    for top in range(0, photo.shape[0], 64):
        tile = features[top : top + 64, half:]
        probs = model.predict_proba(tile.reshape(-1, tile.shape[-1]))
        labels = petal[top : top + 64, half:].reshape(-1)
        sketch.update(
            abstain.losses.zero_one(probs=probs, labels=labels), abstain.scores.max_softmax(probs=probs)
        )
    print(f"{sketch.n:,} pixels, summary of {len(sketch.to_bytes()):,} bytes")
    print("AURC ", sketch.aurc())
    print("AUGRC", sketch.augrc())
    print("Neighbouring pixels are alike: for an error bar give whole pictures as clusters, not pixels.")
    return sketch


if __name__ == "__main__":
    main()
