"""Run a program that draws random numbers along every one of its branches.

The kernels draw uniforms, exponentials, geometrics, integers and normals, and only ever compare
the first two with a number. `BranchingGenerator` answers these calls so that each comparison is
a branch of known probability; `enumerate_branches` walks the whole tree. With
``NUMBA_DISABLE_JIT=1`` the kernels are plain Python: what is enumerated is their very code.
"""

import math
import sys

import numpy as np


class _Uniform:
    def __init__(self, generator):
        self.generator = generator

    def __lt__(self, bound):
        return self.generator.flip(min(max(float(bound), 0.0), 1.0))


class _MinusExponential:
    """-E is the log of a uniform: P(-E < x) = 1 - P(log U >= x)."""

    def __init__(self, generator):
        self.generator = generator

    def __lt__(self, bound):
        return self.generator.flip(0.0 if math.isnan(bound) else math.exp(min(float(bound), 0.0)))


class _Exponential:
    def __init__(self, generator):
        self.generator = generator

    def __neg__(self):
        return _MinusExponential(self.generator)


class Waiting:
    """An exponential number, or what is left of it, of which comparisons say more and more."""

    def __init__(self, generator):
        self.generator, self.low, self.high, self.gone = generator, 0.0, np.inf, 0.0

    def _mass(self, start, stop):
        start, stop = np.clip([start, stop], self.low, self.high)
        return np.exp(self.low - start) - np.exp(self.low - stop)

    def __neg__(self):
        return _LogUniform(self)

    def __lt__(self, bound):
        # Rounding makes no branches.
        at = np.inf if np.isnan(bound) else self.gone + bound
        at = self.low if at < self.low + 1e-12 else at
        p = self._mass(self.low, at) / self._mass(self.low, self.high)
        is_less = self.generator.flip(p)
        self.low, self.high = (self.low, min(at, self.high)) if is_less else (at, self.high)
        return is_less

    def __sub__(self, length):
        self.gone += length
        return self

    def __truediv__(self, rate):
        n = round((self.high - self.gone) / rate)
        masses = [self._mass(self.gone + i * rate, self.gone + (i + 1) * rate) for i in range(n)]
        return self.generator.choose(list(np.array(masses) / sum(masses)))


class _LogUniform:
    def __init__(self, exponential):
        self.exponential = exponential

    def __lt__(self, bound):
        return not self.exponential < -bound


class BranchingGenerator:
    """Stands in for a NumPy Generator along one path of choices."""

    def __init__(self, script):
        self.script = list(script)
        self.taken = []
        self.probability = 1.0

    def choose(self, probabilities):
        """Take the scripted branch, or the first possible one where the script has ended."""
        i = len(self.taken)
        possible = [k for k, p in enumerate(probabilities) if p > 0.0]
        branch = self.script[i] if i < len(self.script) else possible[0]
        rest = [k for k in possible if k > branch]
        self.taken.append((branch, rest))
        self.probability *= probabilities[branch]
        return branch

    def flip(self, p):
        return self.choose([1.0 - p, p]) == 1

    def random(self):
        return _Uniform(self)

    def standard_exponential(self):
        return _Exponential(self)

    def integers(self, low, high):
        return low + self.choose([1.0 / (high - low)] * (high - low))

    def geometric(self, q, longest=4):
        """1, 2, ... `longest` - 1, and everything beyond lumped into `longest`.

        It is the distance to the next of some rows: what is beyond the three that there are is all
        the same, and each further value would be a branch more.
        """
        exact = [q * (1.0 - q) ** (k - 1) for k in range(1, longest)]
        return 1 + self.choose([*exact, (1.0 - q) ** (longest - 1)])

    def standard_normal(self):
        """A symmetric distribution on two points: turns a random walk into one on a lattice."""
        return -1.0 if self.choose([0.5, 0.5]) == 0 else 1.0


def assert_close(values, expected, rtol):
    """As NumPy's own, which would take a third of the time of an enumeration."""
    assert np.all(np.abs(values - expected) <= rtol * np.abs(expected)), (values, expected)


def enumerate_branches(program, kind=BranchingGenerator):
    """Yield (probability, result) of ``program(generator)`` for every path of its choices."""
    script = []
    while True:
        generator = kind(script)
        result = program(generator)
        yield generator.probability, result
        taken = generator.taken
        while taken and not taken[-1][1]:
            taken.pop()
        if not taken:
            return
        script = [branch for branch, _ in taken[:-1]] + [taken[-1][1][0]]


def gets_everywhere(matrix):
    """Whether a chain gets from each state to each other one."""
    steps = np.minimum(matrix + np.eye(len(matrix)), 1.0)
    for _ in range(len(matrix).bit_length()):
        steps = np.minimum(steps @ steps, 1.0)
    return bool(np.all(steps > 0.0))


def end_with_verdict(name, pi, matrix):
    """Exit with 1 unless a transition matrix leaves the distribution pi invariant."""
    invariance = np.max(np.abs(pi @ matrix - pi))
    row_sums = np.max(np.abs(matrix.sum(axis=1) - 1.0))
    print(f"{name}: |pi P - pi| = {invariance:.1e}, |P 1 - 1| = {row_sums:.1e}")
    assert np.mean(np.diag(matrix)) < 0.9, "the kernel hardly moves: nothing is tested"
    if max(invariance, row_sums) > 1e-12:
        sys.exit(1)
