"""The cache that is written in place, against lists of texts."""

import sys

import numpy as np
import pytest
import torch

from pipeline.engines.sampling.slots import SlotLayer, place_rows

MOST_ROWS = 12


def prompt_layers(text, reaches):
    """What a prompt's forward pass leaves: keys are the tokens, values their negatives."""
    layers = []
    for reach in reaches:
        keys = torch.tensor(text[-reach:], dtype=torch.float32)[None, None, :, None].expand(1, 2, -1, 3)
        layers.append(SlotLayer(keys, -keys, reach, keys.shape[2], len(text)))
    return layers


def held(layer, row, length):
    """The tokens that a layer has of the end of a row's text."""
    kept = min(length, layer.reach)
    keys, values = (states[row, :, layer.end - kept : layer.end] for states in (layer.keys, layer.values))
    assert torch.equal(keys, -values) and (keys == keys[:1, :, :1]).all()
    return keys[0, :, 0].tolist()


@pytest.mark.parametrize("reaches", [(sys.maxsize,), (4, sys.maxsize, 9)])
@pytest.mark.parametrize("seed", range(3))
def test_rows_split_end_and_join_in_place(reaches, seed):
    rng, tokens = np.random.default_rng(seed), iter(range(1, 10**6))
    new_text = lambda: [next(tokens) for _ in range(rng.integers(1, 30))]  # noqa: E731
    texts = [new_text()]
    layers, copies, in_place = prompt_layers(texts[0], reaches), [], 0
    for _ in range(150):
        # Rows that end or split, in order of their parents, and texts that join: prompts, and rows copied earlier.
        times = rng.choice([0, 1, 1, 1, 2, 3], len(texts))
        own = [row for row, count in enumerate(times) for _ in range(count)][:MOST_ROWS] or [0]
        parts, sources, expected = [layers], [own], [texts[row] for row in own]
        if copies and rng.random() < 0.3:
            part, their_texts = copies.pop()
            parts, sources, expected = [*parts, part], [*sources, [*range(len(their_texts))]], expected + their_texts
        if rng.random() < 0.3:
            text = new_text()
            parts, sources, expected = [*parts, prompt_layers(text, reaches)], [*sources, [0, 0]], expected + [text] * 2
        if rng.random() < 0.3:
            rows = sorted(rng.choice(len(texts), min(2, len(texts)), replace=False).tolist())
            width = max(len(texts[row]) for row in rows)
            copies.append(([layer.copied(torch.tensor(rows), width) for layer in layers], [texts[row] for row in rows]))
        width, before = max(map(len, expected)), layers[0].keys
        cache, places = place_rows(parts, [torch.tensor(rows) for rows in sources], width, 3 * MOST_ROWS)
        layers, places = cache.layers, places.tolist()
        in_place += layers[0].keys is before
        assert sorted(places) == list(range(len(expected))) and cache.get_seq_length() == width
        texts = [expected[places.index(row)] + [next(tokens)] for row in range(len(expected))]
        newest = torch.tensor([text[-1] for text in texts], dtype=torch.float32)
        newest = newest[:, None, None, None].expand(-1, 2, 1, 3)
        for index, layer in enumerate(layers):
            kept, left_out = cache.get_mask_sizes(1, index)
            assert kept + left_out == width + 1
            keys, _ = cache.update(newest, -newest, index)
            assert keys.shape == (len(texts), 2, kept, 3) and keys.isfinite().all()
            for row, text in enumerate(texts):
                assert held(layer, row, len(text)) == text[-layer.reach :]
    assert in_place > 75
