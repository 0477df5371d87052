"""Stand-ins of NoveltyBench's evaluators: a DeBERTa-v3 pair classifier and a Gemma 2 reward model."""

from pathlib import Path

from tests.stand_ins import SHAPE

WORDS = "the a cat dog river city blue red one two three four five six seven says yes no maybe and of to"


def save_tokenizer(directory: Path, special: dict[str, str], template: str | None = None, add_bos: bool = False):
    """A word-level tokenizer of WORDS and single letters."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokens = [*special.values(), *WORDS.split(), *"bcdefghijklmnopqrstuvwxyz.,!?"]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, special["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if add_bos:
        bos = special["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokens.index(bos))]
        )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    wrapped.chat_template = template
    wrapped.save_pretrained(directory)
    return wrapped


def save_classifier(directory: Path) -> Path:
    """A DeBERTa-v3 (relative attention in buckets, as the benchmark's) with random weights."""
    import torch
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    tokenizer = save_tokenizer(directory, special)
    torch.manual_seed(0)
    config = DebertaV2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        relative_attention=True,
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=2,
    )
    model = DebertaV2ForSequenceClassification(config)
    # Random weights of the usual size give the same probability to every pair.
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(12)
    model.save_pretrained(directory)
    return directory


GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<turn> {{ message['role'][:1] }} {{ message['content'] | trim }} "
    "<end> {% endfor %}"
)


def save_reward_model(directory: Path, template: str = GEMMA_TEMPLATE) -> Path:
    """A Gemma 2 sequence classifier with one output and random weights; its tokenizer adds a BOS token."""
    import torch
    from transformers import Gemma2Config, Gemma2ForSequenceClassification

    special = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
    tokenizer = save_tokenizer(directory, special, template, add_bos=True)
    torch.manual_seed(1)
    config = Gemma2Config(
        **SHAPE,
        vocab_size=len(tokenizer),
        sliding_window=16,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = Gemma2ForSequenceClassification(config)
    # Rewards between the lowest and the highest threshold of the ratings.
    model.score.weight.data.mul_(30)
    model.save_pretrained(directory)
    return directory
