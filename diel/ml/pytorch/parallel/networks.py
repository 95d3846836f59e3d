"""Networks that can be cut: chains of layers, some of which say how their weights are split.

A chain is a `torch.nn.Sequential` without a `forward` of its own; each layer takes what the one before
returned, one tensor or several. A layer with a `tensor_plan`
(`{"up": "columns", "down": "rows"}`) can be split into parts: of the linear layers that it names, those of
columns keep a share of their outputs, those of rows take such a share as inputs, and their results are added
up (M. Shoeybi et al., arXiv:1909.08053). `tensor_units` is what the number of parts must divide.
"""

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def build(model: str, inputs: tuple[int, ...], outputs: int, settings: Mapping[str, Any]) -> nn.Module:
    """Build one of _MAKERS, for samples of this shape and so many outputs; or `package:Class`,
    `path/file.py:Class`.

    A class is called with `settings` alone. Raise ValueError where there is no such network, or where it
    does not take these settings or samples.
    """
    if ":" in model:
        maker: Callable[..., nn.Module] = _find(model)
        arguments = dict(settings)
    elif model in _MAKERS:
        wrong = {name: n for name, n in settings.items() if type(n) is not int or n < (name != "depth")}
        if wrong:
            raise ValueError(f"model {model}: expected whole numbers from 1 on, found {wrong}")
        maker = _MAKERS[model]
        arguments = {"inputs": inputs, "outputs": outputs, **settings}
    else:
        raise ValueError(f"no network '{model}': expected {', '.join(_MAKERS)}, or package:Class")
    try:
        network = maker(**arguments)
    except TypeError as error:
        raise ValueError(f"model {model} with {dict(settings)}: {error}") from error
    if not isinstance(network, nn.Module):
        raise ValueError(f"model {model} made a {type(network).__name__}; expected a torch.nn.Module")
    return network


def _find(model: str) -> Callable[..., nn.Module]:
    package, _, name = model.rpartition(":")
    try:
        if package.endswith(".py"):
            spec = importlib.util.spec_from_file_location(f"diel_network_{Path(package).stem}", package)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(package)
        network: Callable[..., nn.Module] = getattr(module, name)
    except (ImportError, AttributeError, OSError) as error:
        raise ValueError(f"model {model}: {error}") from error
    return network


# ---------------------------------------------------------------- layers


class Mix(nn.Module):
    """Adds to each vector, the last axis, what two linear layers make of it: (…, width) to (…, width)."""

    tensor_plan: Mapping[str, str] = {"up": "columns", "down": "rows"}

    def __init__(self, width: int, wider: int = 4) -> None:
        super().__init__()
        self.tensor_units = wider * width
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, wider * width)
        self.down = nn.Linear(wider * width, width)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return x + output


class Pair(nn.Module):
    """Two layers of a perceptron: (…, width) to (…, width)."""

    tensor_plan: Mapping[str, str] = {"up": "columns", "down": "rows"}

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tensor_units = width
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.down(torch.tanh(self.up(x))))


class Attention(nn.Module):
    """Adds what each place takes from all (A. Vaswani et al., arXiv:1706.03762): (rows, places, width)."""

    tensor_plan: Mapping[str, str] = {"query": "columns", "key": "columns", "value": "columns", "out": "rows"}

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads: {heads} do not divide a width of {width}")
        self.tensor_units = heads
        self.each = width // heads
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        # as many heads as this rank has of them
        parts = (
            to(y).unflatten(-1, (-1, self.each)).transpose(1, 2) for to in (self.query, self.key, self.value)
        )
        heads = nn.functional.scaled_dot_product_attention(*parts)
        output: Tensor = self.out(heads.transpose(1, 2).flatten(-2))
        return x + output


class Embed(nn.Module):
    """Embeds (rows, places, features), or whole numbers (rows, places), with learned places."""

    def __init__(self, places: int, features: int, width: int, vocabulary: int | None) -> None:
        super().__init__()
        self.of = nn.Linear(features, width) if vocabulary is None else nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(places, width) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.of, nn.Embedding) and x.is_floating_point():
            raise ValueError(
                "vocabulary: expected whole numbers, which `standardise: false` leaves as they are"
            )
        output: Tensor = self.of(x)
        return output + self.places


class Recurrent(nn.Module):
    """An LSTM over the places (S. Hochreiter, J. Schmidhuber, Neural Computation 9, 1735 (1997))."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.lstm(x)[0]
        return output


class ReadOff(nn.Module):
    """Of (rows, places, width), the last place's or the mean of all."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1] if self.how == "last" else x.mean(dim=tuple(range(1, x.ndim - 1)))


class Sites(nn.Module):
    """A convolution of each channel for itself, then `Mix` at each site (Z. Liu et al., arXiv:2201.03545).

    (rows, height, width, channels) to the same.
    """

    def __init__(self, channels: int, kernel: int = 3) -> None:
        super().__init__()
        self.near = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.mix = Mix(channels)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.mix(x + self.near(x.movedim(-1, 1)).movedim(1, -1))
        return mixed


class Patches(nn.Module):
    """Squares of sites, each as one vector: (rows, height, width, channels) to a part of the sites."""

    def __init__(self, channels: int, width: int, side: int) -> None:
        super().__init__()
        self.of = nn.Conv2d(channels, width, side, stride=side)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.of(x.movedim(-1, 1)).movedim(1, -1)
        return output.contiguous()


class ChannelsLast(nn.Module):
    """Turns (rows, height, width) or (rows, channels, height, width) to channels last; or back."""

    def __init__(self, back: bool = False) -> None:
        super().__init__()
        self.back = back

    def forward(self, x: Tensor) -> Tensor:
        if self.back:
            return x.movedim(-1, 1)
        return x.unsqueeze(-1) if x.ndim == 3 else x.movedim(1, -1)


class DownStep(nn.Module):
    """A step down of a U-Net: the coarser field, then the finer ones, which wait for their step up."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.sites = Sites(channels)
        self.coarser = Patches(channels, 2 * channels, 2)

    def forward(self, x: Tensor, *waiting: Tensor) -> tuple[Tensor, ...]:
        x = self.sites(x)
        return self.coarser(x), x, *waiting


class UpStep(nn.Module):
    """A step up of a U-Net: joins the coarser field with the finer one of its size."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.finer = nn.Linear(2 * channels, 4 * channels)
        self.join = nn.Linear(2 * channels, channels)
        self.sites = Sites(channels)

    def forward(self, x: Tensor, skip: Tensor, *waiting: Tensor) -> Tensor | tuple[Tensor, ...]:
        rows, height, width, _ = x.shape
        fine = self.finer(x).view(rows, height, width, 2, 2, -1).transpose(2, 3)
        fine = fine.reshape(rows, 2 * height, 2 * width, -1)
        output: Tensor = self.sites(self.join(torch.cat((fine, skip), dim=-1)))
        return (output, *waiting) if waiting else output


class Middle(nn.Module):
    """The coarsest field of a U-Net; the finer ones wait."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.sites = Sites(channels)

    def forward(self, x: Tensor, *waiting: Tensor) -> tuple[Tensor, ...]:
        return self.sites(x), *waiting


class Chain(nn.Sequential):
    """Layers of which some hand on several tensors."""

    def forward(self, *x: Tensor) -> Any:
        for layer in self:
            y = layer(*x)
            x = y if isinstance(y, tuple) else (y,)
        return x[0] if len(x) == 1 else x


# ---------------------------------------------------------------- networks


def mlp(inputs: tuple[int, ...], outputs: int, width: int = 64, depth: int = 2) -> nn.Sequential:
    """Return a perceptron with 1 + 2 `depth` hidden layers of tanh."""
    pairs = (Pair(width) for _ in range(depth))
    first = (nn.Flatten(), nn.Linear(math.prod(inputs), width), nn.Tanh())
    return nn.Sequential(*first, *pairs, nn.Linear(width, outputs))


def cnn(
    inputs: tuple[int, ...], outputs: int, width: int = 32, depth: int = 4, patch: int = 1
) -> nn.Sequential:
    """Make a convolutional network over (height, width), perhaps channels first, of `depth` blocks."""
    channels = _channels("cnn", inputs)
    blocks = (Sites(width) for _ in range(depth))
    return nn.Sequential(
        ChannelsLast(), Patches(channels, width, patch), *blocks, ReadOff("mean"), nn.Linear(width, outputs)
    )


def lstm(inputs: tuple[int, ...], outputs: int, width: int = 64, depth: int = 2) -> nn.Sequential:
    """Stack `depth` layers of LSTM over (places, features), whose last place is mixed and read."""
    _, features = _sequence("lstm", inputs)
    layers = (Recurrent(features if number == 0 else width, width) for number in range(depth))
    return nn.Sequential(*layers, ReadOff("last"), Mix(width), nn.Linear(width, outputs))


def transformer(
    inputs: tuple[int, ...],
    outputs: int,
    width: int = 64,
    depth: int = 2,
    heads: int = 4,
    vocabulary: int | None = None,
) -> nn.Sequential:
    """Make `depth` blocks of attention and mixing over (places, features) or words (places,), then a mean."""
    places, features = (inputs[0], 1) if vocabulary is not None else _sequence("transformer", inputs)
    blocks = (layer for _ in range(depth) for layer in (Attention(width, heads), Mix(width)))
    return nn.Sequential(
        Embed(places, features, width, vocabulary), *blocks, ReadOff("mean"), nn.Linear(width, outputs)
    )


def unet(inputs: tuple[int, ...], outputs: int, width: int = 16, depth: int = 2) -> nn.Sequential:
    """Return a network that maps (height, width) or (channels, height, width) to `outputs` channels, over
    `depth` coarser fields (O. Ronneberger et al., arXiv:1505.04597); both are multiples of 2 ** depth."""
    channels = _channels("unet", inputs)
    if any(side % 2**depth for side in inputs[-2:]):
        raise ValueError(f"unet: {inputs[-2]} × {inputs[-1]} sites cannot be halved {depth} times")
    widths = [width * 2**level for level in range(depth)]
    return Chain(
        ChannelsLast(),
        Patches(channels, width, 1),
        *(DownStep(size) for size in widths),
        Middle(width * 2**depth),
        *(UpStep(size) for size in reversed(widths)),
        nn.Linear(width, outputs),
        ChannelsLast(back=True),
    )


_MAKERS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "cnn": cnn,
    "lstm": lstm,
    "transformer": transformer,
    "unet": unet,
}


def _channels(name: str, inputs: tuple[int, ...]) -> int:
    if len(inputs) not in (2, 3):
        raise ValueError(
            f"{name}: expected samples of (height, width) or (channels, height, width); found {inputs}"
        )
    return inputs[0] if len(inputs) == 3 else 1


def _sequence(name: str, inputs: tuple[int, ...]) -> tuple[int, int]:
    if len(inputs) != 2:
        raise ValueError(f"{name}: expected samples of shape (places, features); found {inputs}")
    return inputs[0], inputs[1]
