"""Networks of plain torch.nn for sequences, tables and sound; they need no other package."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.torch_networks import TorchModel, classified, pictures, seeded

__all__ = ["SEQUENCES"]

Batch = dict[str, torch.Tensor]

WORD_COUNT = 17


def _of_x(network: nn.Module, batch: Callable[[int], Batch], **options: object) -> TorchModel:
    """A network of one tensor."""
    options.setdefault("loss", classified)
    return TorchModel(network, batch, lambda n, inputs: n(inputs["x"]), **options)


def _sentences(rows: int, length: int) -> Callable[[int], Batch]:
    """Random words; the label of each is the next."""

    def batch(seed: int) -> Batch:
        words = torch.randint(WORD_COUNT, (rows, length), generator=seeded(seed))
        return {"x": words, "labels": words.roll(-1, 1)}

    return batch


class _Seq2Seq(nn.Module):
    """A GRU reads in both directions; another writes, with additive attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORD_COUNT, 8)
        self.reads = nn.GRU(8, 6, bidirectional=True, batch_first=True)
        self.writes = nn.GRUCell(8 + 12, 12)
        self.keys, self.queries = nn.Linear(12, 8), nn.Linear(12, 8, bias=False)
        self.scores, self.head = nn.Linear(8, 1), nn.Linear(12, WORD_COUNT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.words(x)
        memory, last = self.reads(rows)
        state, outputs = torch.cat([last[0], last[1]], -1), []
        for step in range(x.shape[1]):
            energy = torch.tanh(self.keys(memory) + self.queries(state).unsqueeze(1))
            weights = self.scores(energy).softmax(1)
            state = self.writes(torch.cat([rows[:, step], (weights * memory).sum(1)], -1), state)
            outputs.append(self.head(state))
        return torch.stack(outputs, 1)


def seq2seq() -> TorchModel:
    """An encoder and a decoder of GRUs with attention."""
    return _of_x(_Seq2Seq(), _sentences(2, 5))


class _WaveNet(nn.Module):
    """Gated causal convolutions with growing dilation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, 8, 1)
        self.gated = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 16, 2, dilation=2**n))
            for n in range(3)
        )
        self.mixed = nn.ModuleList(nn.Conv1d(8, 16, 1) for _ in range(3))
        self.head = nn.Conv1d(8, 10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, skipped = self.first(x), 0
        for number, (gated, mixed) in enumerate(zip(self.gated, self.mixed, strict=True)):
            value, gate = gated(F.pad(x, (2**number, 0))).chunk(2, 1)
            residual, skip = mixed(value.tanh() * gate.sigmoid()).chunk(2, 1)
            x, skipped = x + residual, skipped + skip
        return self.head(F.relu(skipped)).mean(-1)


def wavenet() -> TorchModel:
    """WaveNet, its weights normalized."""
    return _of_x(_WaveNet(), pictures(2, 2, 24))


class _Ranking(nn.Module):
    """Bags of categories and a table of numbers, and the products of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(11, 6, mode=m) for m in ("sum", "mean"))
        self.dense = nn.Sequential(nn.Linear(5, 6), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(9, 8), nn.SELU(), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        dense = self.dense(x)
        rows = torch.stack([dense, *(bag(categories) for bag in self.bags)], 1)
        products = rows @ rows.mT
        i, j = torch.tril_indices(3, 3, -1, device=x.device)
        return self.head(torch.cat([dense, products[:, i, j]], 1)).squeeze(1)


def ranking() -> TorchModel:
    """DLRM: embedding bags and their interaction."""

    def batch(seed: int) -> Batch:
        drawn = seeded(seed)
        categories = torch.randint(11, (6, 3), generator=drawn)
        return {
            "x": torch.randn(6, 5, generator=drawn),
            "categories": categories,
            "labels": torch.randint(2, (6,), generator=drawn).float(),
        }

    return TorchModel(
        _Ranking(), batch, lambda n, inputs: n(inputs["x"], inputs["categories"]),
        F.binary_cross_entropy_with_logits, ("Adagrad", {"lr": 0.05, "eps": 1e-2}),
    )  # fmt: skip


class _Rotary(nn.Module):
    """A decoder's layer with complex rotations, grouped keys, RMS norm and a gated product."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.words, self.heads = nn.Embedding(WORD_COUNT, width), heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.q, self.kv = nn.Linear(width, width, False), nn.Linear(width, width, False)
        self.out = nn.Linear(width, width, False)
        self.gate, self.up = nn.Linear(width, 24, False), nn.Linear(width, 24, False)
        self.down = nn.Linear(24, width, False)
        rates = 10000.0 ** -(torch.arange(0, width // heads, 2) / (width // heads))
        angles = torch.outer(torch.arange(32), rates)
        self.register_buffer("angles", angles, persistent=False)

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        angles = self.angles[: x.shape[1]]
        turns = torch.polar(torch.ones_like(angles), angles).unsqueeze(1)
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.words(x)
        y = self.norms[0](x)
        q = self.rotated(self.q(y).unflatten(-1, (self.heads, -1))).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (2, self.heads // 2, -1)).unbind(2)
        k, v = self.rotated(k).transpose(1, 2), v.transpose(1, 2)
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.norms[2](x) @ self.words.weight.T


def rotary() -> TorchModel:
    """Llama in the form that was published first: ``polar`` and complex products."""
    return _of_x(_Rotary(), _sentences(2, 6))


class _Experts(nn.Module):
    """The two best of four networks for each row, weighed by their scores."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 4)
        self.inner = nn.Parameter(torch.randn(4, 8, 12) * 0.3)
        self.outer = nn.Parameter(torch.randn(4, 12, 10) * 0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best, chosen = self.scores(x).topk(2, -1)
        weights = torch.zeros_like(x[:, :4]).scatter(1, chosen, best.softmax(-1))
        hidden = torch.einsum("bi,eih->ebh", x, self.inner).relu()
        return torch.einsum("ebh,eho,be->bo", hidden, self.outer, weights)


def experts() -> TorchModel:
    """A mixture of experts with dense dispatch."""
    return _of_x(_Experts(), pictures(6, 8))


class _Tagger(nn.Module):
    """An LSTM in both directions, and the score of a chain of tags beside that of all chains."""

    def __init__(self, tags: int = 4) -> None:
        super().__init__()
        self.words, self.reads = nn.Embedding(WORD_COUNT, 6), nn.LSTM(6, 5, bidirectional=True)
        self.head = nn.Linear(10, tags)
        self.moves = nn.Parameter(torch.randn(tags, tags) * 0.2)

    def forward(self, x: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.reads(self.words(x.T))[0])
        steps = tags.T
        picked = scores.gather(2, steps.unsqueeze(2)).squeeze(2).sum(0)
        picked = picked + self.moves[steps[:-1], steps[1:]].sum(0)
        total = scores[0]
        for row in scores[1:]:
            total = torch.logsumexp(total.unsqueeze(2) + self.moves, 1) + row
        return total.logsumexp(1) - picked


def tagger() -> TorchModel:
    """A conditional random field over a bidirectional LSTM."""

    def batch(seed: int) -> Batch:
        tags = torch.randint(4, (3, 6), generator=seeded(seed + 1))
        return _sentences(3, 6)(seed) | {"tags": tags}

    return TorchModel(
        _Tagger(), batch, lambda n, inputs: n(inputs["x"], inputs["tags"]),
        lambda out, labels: out.mean(), ("NAdam", {"lr": 1e-2, "eps": 1e-2}),
    )  # fmt: skip


class _Translator(nn.Module):
    """torch's own Transformer, with a mask of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORD_COUNT, 16)
        self.body = nn.Transformer(16, 2, 1, 1, 24, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(16, WORD_COUNT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], device=x.device), 1).bool()
        padding = x == 0
        y = self.body(
            self.words(x), self.words(x.flip(1)), tgt_mask=mask, src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )  # fmt: skip
        return self.head(y)


def translator() -> TorchModel:
    """``torch.nn.Transformer`` with masks."""
    return _of_x(_Translator(), _sentences(2, 6))


class _LongConvolution(nn.Module):
    """A convolution as long as the sequence, by Fourier transforms."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(4, 12), nn.Linear(6, 10)
        self.filter = nn.Parameter(torch.randn(6, 16) * 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.inner(x).mT.chunk(2, 1)
        spectrum = torch.fft.rfft(value, n=32) * torch.fft.rfft(self.filter, n=32)
        y = torch.fft.irfft(spectrum, n=32)[..., : x.shape[1]]
        return self.head((y * F.gelu(gate, approximate="tanh")).mT).mean(1)


def long_convolution() -> TorchModel:
    """Hyena's operator."""
    return _of_x(_LongConvolution(), pictures(3, 16, 4))


class _LinearAttention(nn.Module):
    """Attention as a sum over time, and a decay for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(6, 18), nn.Linear(6, 10)
        self.decay = nn.Parameter(torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), 1)
        norm = torch.cumsum(k, 1).mul(q).sum(-1, keepdim=True)
        y = torch.einsum("btk,btkv->btv", q, state) / norm
        lengths = torch.arange(x.shape[1] - 1, -1, -1, device=x.device).unsqueeze(-1)
        return self.head((y * torch.exp(-lengths * self.decay.exp())).sum(1))


def linear_attention() -> TorchModel:
    """Linear attention with a decay, as of RWKV."""
    return _of_x(_LinearAttention(), pictures(2, 9, 6))


class _Spectrogram(nn.Module):
    """Short Fourier transforms, decibels, convolutions, and letters from columns."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.inner = nn.Sequential(nn.Conv1d(9, 8, 3, padding=1), nn.InstanceNorm1d(8), nn.ReLU())
        self.reads, self.head = nn.RNN(8, 8, batch_first=True), nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(x, 16, 8, window=self.window, return_complex=True)
        loudness = torch.log10(spectrum.abs().square() + 1e-3)
        return self.head(self.reads(self.inner(loudness).mT)[0])


def spectrogram() -> TorchModel:
    """Sound through ``stft`` and an RNN, with the loss of its letters (CTC)."""

    def batch(seed: int) -> Batch:
        drawn = seeded(seed)
        letters = torch.randint(1, 6, (2, 3), generator=drawn)
        return {"x": torch.randn(2, 96, generator=drawn), "labels": letters}

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = F.log_softmax(logits, -1).transpose(0, 1)
        lengths = (torch.full((2,), size) for size in (logits.shape[1], labels.shape[1]))
        return F.ctc_loss(scores, labels, *lengths)

    return _of_x(_Spectrogram(), batch, loss=loss, tolerance=1e-3)


class _Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Linear(8, 12)), nn.Softsign(), nn.Linear(12, 5),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.body(x), dim=-1)


def siamese() -> TorchModel:
    """Three pictures through one network, compared by their distances."""

    def loss(rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        anchor, near, far = rows.unbind(1)
        signs = labels.remainder(2) * 2 - 1
        return F.triplet_margin_loss(anchor, near, far) + F.cosine_embedding_loss(near, far, signs)

    network = _Siamese()
    network.eval()  # spectral_norm in training writes its vectors at every read
    return _of_x(network, pictures(4, 3, 8), loss=loss, optimizer=("RMSprop", {"eps": 1e-2}))


class _Flow(nn.Module):
    """Runge-Kutta steps of a learned field; the trace of its slope follows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 12), nn.Linear(12, 3)

    def field(self, time: float, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.tanh(self.inner(F.pad(x, (0, 1), value=time))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step = 0.25
        for number in range(3):
            time = number * step
            a = self.field(time, x)
            b = self.field(time + step / 2, x + step / 2 * a)
            c = self.field(time + step / 2, x + step / 2 * b)
            d = self.field(time + step, x + step * c)
            x = x + step / 6 * (a + 2 * b + 2 * c + d)
        return x


def flow() -> TorchModel:
    """A neural differential equation, with the likelihood of a Gaussian."""

    def loss(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return 0.5 * (out.square() + math.log(2 * math.pi)).sum(-1).mean()

    return _of_x(_Flow(), pictures(5, 3), loss=loss, optimizer=("SGD", {"lr": 0.1, "nesterov": True, "momentum": 0.5}))  # fmt: skip


SEQUENCES: dict[str, Callable[[], TorchModel]] = {
    factory.__name__: factory
    for factory in (
        experts, flow, linear_attention, long_convolution, ranking, rotary, seq2seq, siamese,
        spectrogram, tagger, translator, wavenet,
    )
}  # fmt: skip
"""Name -> the model; each is made when it is asked for."""
