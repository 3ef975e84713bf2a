"""Models, each with a training step that makes its own batch: what the tests train, small, and the bench,
`scale` times as wide."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    def __init__(self, scale=1):
        super().__init__()
        self.width = 128 * scale
        self.layers = nn.Sequential(*[layer for _ in range(6) for layer in
                                      (nn.Linear(self.width, self.width), nn.ReLU(), nn.Dropout(0.1))])

    def loss(self, step):
        return self.layers(torch.randn(256, self.width)).square().mean()


class Cnn(nn.Module):
    """Batch norm, dropout, and activations in place."""

    def __init__(self, scale=1):
        super().__init__()
        a, b = 16 * scale, 32 * scale
        self.body = nn.Sequential(
            nn.Conv2d(3, a, 3, padding=1), nn.BatchNorm2d(a), nn.ReLU(inplace=True),
            nn.Conv2d(a, a, 3, padding=1), nn.BatchNorm2d(a), nn.ReLU(inplace=True),
            nn.MaxPool2d(2), nn.Dropout(0.2),
            nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b, momentum=None), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(b, 10))

    def loss(self, step):
        target = torch.randint(10, (8,))
        return F.cross_entropy(self.body(torch.randn(8, 3, 32, 32)), target)


class Lstm(nn.Module):
    """A cell called in a loop, and one of PyTorch's own layers."""

    def __init__(self, scale=1, steps=30):
        super().__init__()
        self.width, self.steps = 32 * scale, steps
        self.cell, self.layer = nn.LSTMCell(16, self.width), nn.LSTM(self.width, self.width)
        self.out = nn.Linear(self.width, 1)

    def loss(self, step):
        x = torch.randn(self.steps, 32, 16)
        h = c = torch.zeros(32, self.width)
        seen = []
        for t in range(self.steps):
            h, c = self.cell(x[t], (h, c))
            seen.append(h)
        y, _ = self.layer(torch.stack(seen[-8:]))
        return self.out(y).square().mean()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width),
                                  nn.Dropout(0.1))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, scale=1):
        super().__init__()
        width = 32 * scale
        self.embed, self.place = nn.Embedding(50, width), nn.Parameter(torch.randn(24, width) * 0.1)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(3)])
        self.head = nn.Linear(width, 50)

    def loss(self, step):
        tokens = torch.randint(50, (8, 25))
        x = self.blocks(self.embed(tokens[:, :-1]) + self.place)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


class Tree(nn.Module):
    """Another tree each step, which branches on values."""

    def __init__(self, scale=1):
        super().__init__()
        width = 64 * scale
        self.join, self.leaf = nn.Linear(2 * width, width), nn.Linear(16, width)
        self.left = nn.Linear(width, width)

    def grow(self, depth):
        if depth == 0 or torch.rand(1).item() < 0.1:
            return torch.tanh(self.leaf(torch.randn(32, 16)))
        value = self.join(torch.cat([self.grow(depth - 1), self.grow(depth - 1)], 1))
        if value.mean().item() > 0:
            value = torch.sigmoid(self.left(value))
        return torch.tanh(value)

    def loss(self, step):
        return self.grow(4 + step % 2).square().mean()


class Unet(nn.Module):
    """Two levels, what goes down kept for what comes up."""

    def __init__(self):
        super().__init__()
        self.ins = nn.ModuleList([self.pair(1, 6), self.pair(6, 12)])
        self.middle = self.pair(12, 16)
        self.ups = nn.ModuleList([nn.ConvTranspose2d(16, 12, 2, 2), nn.ConvTranspose2d(12, 6, 2, 2)])
        self.outs = nn.ModuleList([self.pair(24, 12), self.pair(12, 6)])
        self.last = nn.Conv2d(6, 1, 1)

    @staticmethod
    def pair(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.LeakyReLU(0.1, inplace=True),
                             nn.Conv2d(b, b, 3, padding=1), nn.ReLU())

    def loss(self, step):
        image = torch.randn(4, 1, 32, 32)
        x, kept = image, []
        for level in self.ins:
            x = level(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, out in zip(self.ups, self.outs):
            x = out(torch.cat([kept.pop(), up(x)], 1))
        return F.mse_loss(self.last(x), image)


class UnrolledGan(nn.Module):
    """The generator's loss goes through steps of the discriminator: the gradient of a gradient."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 16))
        self.w1, self.w2 = nn.Parameter(torch.randn(16, 32) * 0.2), nn.Parameter(torch.randn(32, 1) * 0.2)

    @staticmethod
    def judge(x, w1, w2):
        return torch.sigmoid(torch.tanh(x @ w1) @ w2)

    def loss(self, step):
        real, fake = torch.randn(128, 16), self.generator(torch.randn(128, 8))
        weights = [self.w1, self.w2]
        for _ in range(4):
            d_loss = -(torch.log(self.judge(real, *weights) + 1e-6).mean()
                       + torch.log(1 - self.judge(fake, *weights) + 1e-6).mean())
            grads = torch.autograd.grad(d_loss, weights, create_graph=True)
            weights = [w - 0.1 * g for w, g in zip(weights, grads)]
        return -torch.log(self.judge(fake, *weights) + 1e-6).mean()


MODELS = {"mlp": Mlp, "cnn": Cnn, "lstm": Lstm, "transformer": Transformer, "tree": Tree,
          "unet": Unet, "gan": UnrolledGan}


def make(name, **size):
    torch.manual_seed(0)
    return MODELS[name](**size)
