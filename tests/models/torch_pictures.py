"""Networks of plain torch.nn for pictures and coordinates; they need no other package."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.torch_networks import TorchModel, classified, pictures, seeded

__all__ = ["PICTURES"]

Batch = dict[str, torch.Tensor]


def _of_x(network: nn.Module, batch: Callable[[int], Batch], **options: object) -> TorchModel:
    """A network of one tensor, trained with momentum by cross entropy."""
    options = {"optimizer": ("SGD", {"lr": 0.05, "momentum": 0.9})} | options
    options.setdefault("loss", classified)
    return TorchModel(network, batch, lambda n, inputs: n(inputs["x"]), **options)


class _UNet(nn.Module):
    """One level down and up, joined by a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.middle = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = self.down(x)
        x = self.up(self.middle(F.max_pool2d(skipped, 2)))
        return self.head(torch.cat([x, skipped], 1))


def unet() -> TorchModel:
    """U-Net: a class for each pixel."""

    def batch(seed: int) -> Batch:
        labels = torch.randint(4, (2, 12, 12), generator=seeded(seed + 1))
        return pictures(2, 3, 12, 12)(seed) | {"labels": labels}

    return _of_x(_UNet(), batch, loss=F.cross_entropy, tolerance=1e-3)


class _Mixer(nn.Module):
    """Patches, then layers along the patches and along the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(3))
        self.places = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))
        self.channels = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).mT
        x = x + self.places(self.norms[0](x).mT).mT
        x = x + self.channels(self.norms[1](x))
        return self.head(self.norms[2](x).mean(1))


def mixer() -> TorchModel:
    """MLP-Mixer: no attention and no convolutions but those of the patches."""
    return _of_x(_Mixer(), pictures(3, 3, 16, 16))


class _ConvNext(nn.Module):
    """A depthwise convolution of 7 x 7, a norm of the channels, a scale of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 2, 2)
        self.depthwise = nn.Conv2d(12, 12, 7, padding=3, groups=12)
        self.norm = nn.LayerNorm(12)
        self.wide, self.narrow = nn.Linear(12, 48), nn.Linear(48, 12)
        self.scale = nn.Parameter(torch.full((12,), 0.1))
        self.head = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(F.gelu(self.wide(y)))
        return self.head((x + y.permute(0, 3, 1, 2)).mean((-2, -1)))


def convnext() -> TorchModel:
    """A block of ConvNeXt."""
    return _of_x(_ConvNext(), pictures(2, 3, 16, 16))


class _MobileNet(nn.Module):
    """An inverted residual with squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(8, 24, 1), nn.BatchNorm2d(24), nn.ReLU6())
        self.depthwise = nn.Conv2d(24, 24, 5, padding=2, groups=24)
        self.squeeze, self.excite = nn.Conv2d(24, 6, 1), nn.Conv2d(6, 24, 1)
        self.narrow = nn.Conv2d(24, 8, 1)
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.depthwise(self.expand(x))
        gates = self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1))))
        x = x + self.narrow(y * F.hardsigmoid(gates))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def mobilenet() -> TorchModel:
    """A block of MobileNetV3, with the statistics of the batch."""
    return _of_x(_MobileNet(), pictures(4, 3, 12, 12), tolerance=1e-3)


class _ShuffleNet(nn.Module):
    """Half of the channels pass, then the channels are mixed; residuals are concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.right = nn.Sequential(
            nn.Conv2d(6, 6, 1), nn.ELU(), nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.CELU(0.7)
        )
        self.head = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.stem(x).chunk(2, 1)
        x = F.channel_shuffle(torch.cat([left, self.right(right)], 1), 2)
        return self.head(F.lp_pool2d(x.abs() + 0.1, 2, 4).amax((-2, -1)))


def shufflenet() -> TorchModel:
    """ShuffleNet's unit with a power pooling."""
    return _of_x(_ShuffleNet(), pictures(2, 3, 8, 8))


class _Transformed(nn.Module):
    """A network that places a sampling grid on its picture."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.Tanh(), nn.Flatten(), nn.Linear(64, 6))
        self.head = nn.Linear(36, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = torch.tensor([1.0, 0, 0, 0, 1, 0], device=x.device)
        grid = F.affine_grid(
            (self.where(x) * 0.2 + identity).view(-1, 2, 3), [x.shape[0], 1, 6, 6], False
        )
        return self.head(F.grid_sample(x, grid, align_corners=False).flatten(1))


def spatial_transformer() -> TorchModel:
    """A spatial transformer network: ``affine_grid`` and ``grid_sample``."""
    return _of_x(_Transformed(), pictures(3, 1, 12, 12))


class _SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(1, 8, 3), nn.PReLU(8), nn.ReplicationPad2d(1),
            nn.Conv2d(8, 4, 3), nn.PixelShuffle(2),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        resized = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        return self.body(x) + resized


def super_resolution() -> TorchModel:
    """ESPCN: channels become pixels, beside a bicubic resize."""

    def batch(seed: int) -> Batch:
        target = torch.randn(2, 1, 16, 16, generator=seeded(seed + 1))
        return pictures(2, 1, 8, 8)(seed) | {"labels": target}

    return _of_x(_SuperResolution(), batch, loss=F.smooth_l1_loss, tolerance=1e-3)


class _Atrous(nn.Module):
    """Convolutions of several dilations, joined with the mean of the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.arms = nn.ModuleList(nn.Conv2d(3, 4, 3, padding=d, dilation=d) for d in (1, 2, 3))
        self.pooled, self.head = nn.Conv2d(3, 4, 1), nn.Conv2d(16, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        average = self.pooled(x.mean((2, 3), keepdim=True))
        average = F.interpolate(average, size=x.shape[-2:], mode="nearest")
        joined = torch.cat([*(arm(x) for arm in self.arms), average], 1)
        return F.interpolate(
            self.head(F.leaky_relu(joined)), scale_factor=2, mode="bilinear", align_corners=True
        )


def atrous() -> TorchModel:
    """DeepLab's pyramid of dilated convolutions, resized bilinearly."""

    def batch(seed: int) -> Batch:
        labels = torch.randint(4, (2, 16, 16), generator=seeded(seed + 1))
        return pictures(2, 3, 8, 8)(seed) | {"labels": labels}

    return _of_x(_Atrous(), batch, loss=F.cross_entropy, tolerance=1e-3)


class _Vae(nn.Module):
    """The noise is an input: a NEFF draws no random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 16), nn.Softplus(), nn.Linear(16, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.Mish(), nn.Linear(16, 20))

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, spread = self.encoder(x).chunk(2, -1)
        decoded = self.decoder(mean + noise * torch.exp(0.5 * spread))
        divergence = -0.5 * (1 + spread - mean**2 - spread.exp()).sum(-1, keepdim=True)
        return torch.cat([decoded, divergence], -1)


def vae() -> TorchModel:
    """A variational autoencoder."""

    def batch(seed: int) -> Batch:
        drawn = seeded(seed)
        x, noise = torch.rand(5, 20, generator=drawn), torch.randn(5, 4, generator=drawn)
        return {"x": x, "noise": noise, "labels": x.clone()}

    def loss(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(out[:, :-1], labels) + out[:, -1].mean()

    return TorchModel(_Vae(), batch, lambda n, inputs: n(inputs["x"], inputs["noise"]), loss)


class _Quantized(nn.Module):
    """The nearest entry of a codebook; gradients pass straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 6), nn.Linear(6, 12)
        self.codes = nn.Embedding(9, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.encoder(x)
        nearest = self.codes(torch.cdist(z, self.codes.weight).argmin(-1))
        commitment = (z - nearest.detach()).square().mean(-1) + (
            z.detach() - nearest
        ).square().mean(-1)
        decoded = self.decoder(z + (nearest - z).detach())
        return torch.cat([decoded, commitment.unsqueeze(-1)], -1)


def vq_vae() -> TorchModel:
    """VQ-VAE: distances, the smallest, and a stopped gradient."""

    def batch(seed: int) -> Batch:
        x = torch.randn(7, 12, generator=seeded(seed))
        return {"x": x, "labels": x.clone()}

    def loss(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(out[:, :-1], labels) + out[:, -1].mean()

    return _of_x(_Quantized(), batch, loss=loss)


class _Nerf(nn.Module):
    """Coordinates as waves, then light that is absorbed along each ray."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(18, 24), nn.ReLU(), nn.Linear(24, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        waves = [wave(x * 2.0**n) for n in range(3) for wave in (torch.sin, torch.cos)]
        colors, density = self.body(torch.cat(waves, -1)).split([3, 1], -1)
        absorbed = 1 - torch.exp(-F.softplus(density.squeeze(-1)) * 0.3)
        passed = torch.cumprod(F.pad(1 - absorbed + 1e-6, (1, 0), value=1.0), -1)[..., :-1]
        return ((passed * absorbed).unsqueeze(-1) * colors.sigmoid()).sum(-2)


def nerf() -> TorchModel:
    """A radiance field: a cumulative product along rays."""

    def batch(seed: int) -> Batch:
        drawn = seeded(seed)
        x, labels = torch.randn(4, 6, 3, generator=drawn), torch.rand(4, 3, generator=drawn)
        return {"x": x, "labels": labels}

    return _of_x(_Nerf(), batch, loss=F.huber_loss)


class _Points(nn.Module):
    """A point cloud turned by a learned matrix, neighbors by distance, the largest feature."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.edges = nn.Linear(3, 9), nn.Linear(6, 12)
        self.head = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = x @ (self.turn(x.amax(1)).view(-1, 3, 3) + torch.eye(3, device=x.device))
        distances = torch.cdist(turned, turned)
        neighbors = distances.topk(3, -1, largest=False).indices
        rows = torch.arange(x.shape[0], device=x.device)[:, None, None]
        around = turned[rows, neighbors] - turned.unsqueeze(2)
        edges = torch.cat([turned.unsqueeze(2).expand_as(around), around], -1)
        return self.head(F.relu(self.edges(edges)).amax(2).amax(1))


def points() -> TorchModel:
    """A dynamic graph network for points: ``cdist``, ``topk``, gathered neighbors."""
    return _of_x(_Points(), pictures(3, 10, 3))


PICTURES: dict[str, Callable[[], TorchModel]] = {
    factory.__name__: factory
    for factory in (
        atrous, convnext, mixer, mobilenet, nerf, points, shufflenet, spatial_transformer,
        super_resolution, unet, vae, vq_vae,
    )
}  # fmt: skip
"""Name -> the model; each is made when it is asked for."""
