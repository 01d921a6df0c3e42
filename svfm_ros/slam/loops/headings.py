"""Headings at which the walls of two maps can be parallel, from histograms of the directions that they face.

Most rooms have walls in a few directions only. A search over all headings then wastes most of its time: the cross
correlation of the two histograms has narrow peaks, and only headings near a peak can match. Where walls face all
directions alike, as in clutter, there are no narrow peaks and every heading is searched.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.geometry import wrap_angle

__all__ = ["HeadingRange", "facing_histogram", "likely_headings"]

Array = NDArray[np.float64]

_BINS = 120
_BIN_RAD = 2.0 * np.pi / _BINS
_SMOOTHING = np.array([0.25, 0.5, 0.25])
_PEAK_BINS = 12  # a peak is the largest value within so many bins on either side
_PEAK_SHARE = 0.75  # headings with at least this share of the peak's value belong to it


@dataclass(frozen=True, slots=True)
class HeadingRange:
    """Headings from ``centre_rad - half_rad`` to ``centre_rad + half_rad``."""

    centre_rad: float
    half_rad: float


def facing_histogram(normals: Array, weights: Array | None = None) -> Array:
    """How many walls face each direction: ``(120,)``, smoothed, from normals ``(N, 2)``."""
    angles = np.arctan2(normals[:, 1], normals[:, 0])
    bins = np.floor(angles / _BIN_RAD).astype(int) % _BINS
    counts = np.bincount(bins, weights, minlength=_BINS).astype(float)
    padded = np.concatenate([counts[-1:], counts, counts[:1]])
    return np.asarray(np.convolve(padded, _SMOOTHING, "valid"))


def likely_headings(source: Array, target: Array) -> list[HeadingRange]:
    """Ranges of the heading of the source in the target's frame at which their walls are parallel."""
    spectrum = np.conj(np.fft.rfft(source)) * np.fft.rfft(target)
    correlation = np.fft.irfft(spectrum, _BINS)  # at heading k: sum of source[i] * target[i + k]
    around = np.arange(-_PEAK_BINS, _PEAK_BINS + 1)
    peaks = correlation[(np.arange(_BINS)[:, None] + around) % _BINS].max(axis=1)
    likely = correlation >= _PEAK_SHARE * peaks
    if likely.all():
        return [HeadingRange(0.0, float(np.pi))]
    first = int(np.flatnonzero(~likely)[0])  # start where no range goes on
    runs = np.flatnonzero(np.diff(np.roll(likely, -first).astype(int), append=0))  # last bins before each change
    return [_range(first + start + 1, first + end) for start, end in zip(runs[::2], runs[1::2], strict=True)]


def _range(first: int, last: int) -> HeadingRange:
    """Bins ``first`` to ``last``, and one more on either side."""
    centre = (first + last) / 2.0 * _BIN_RAD
    return HeadingRange(float(wrap_angle(centre)), float((last - first + 3) / 2.0 * _BIN_RAD))
