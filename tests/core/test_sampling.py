"""Draws by inversion against the exact law."""

import torch

from pipeline.core.sampling import sample_tokens


def test_draws_cover_the_law_evenly():
    """Evenly spaced uniform numbers give every token its share of 2^18 draws to within one at each of its two ends."""
    count, vocabulary = 2**18, 50_001
    generator = torch.Generator().manual_seed(0)
    # From a half to a hundred millionth, and some tokens of probability 0, at both ends and in whole blocks.
    logits = torch.randn(1, vocabulary, generator=generator) * 4
    logits[0, :300] = logits[0, 20_000:20_700] = logits[0, -1] = -torch.inf
    logits[0, 31_234] = 1.3 * torch.logsumexp(logits[0] / 1.3, dim=-1)
    law = torch.softmax(logits[0].double() / 1.3, dim=-1)
    assert 0.4 < law.max() < 0.6 and law[law > 0].min() < 1e-8
    counts = torch.zeros(vocabulary, dtype=torch.int64)
    for uniforms in ((torch.arange(count, dtype=torch.float64) + 0.5) / count).split(2**17):
        drawn = sample_tokens(logits, uniforms, 1.3, rows=torch.zeros(len(uniforms), dtype=torch.int64))
        counts += torch.bincount(drawn, minlength=vocabulary)
    assert (counts - law * count).abs().max() < 2
    assert not counts[law == 0].any()


def test_the_ends_of_the_unit_interval():
    """0 is the first token that has probability, the number before 1 the last one, whatever lies around them."""
    uniforms = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    for vocabulary in (5, 256, 300, 512, 1000):
        first, last = vocabulary // 3, vocabulary // 2
        logits = torch.full((2, vocabulary), -torch.inf)
        logits[0, first : last + 1] = torch.linspace(-20, 20, last - first + 1)
        logits[1, vocabulary - 2] = -1e30
        for row, ends in enumerate([(first, last), (vocabulary - 2, vocabulary - 2)]):
            assert sample_tokens(logits, uniforms, rows=torch.full((2,), row)).tolist() == list(ends)
